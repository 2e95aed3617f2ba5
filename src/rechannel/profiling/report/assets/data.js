// The data of the page: what `page_data` returns. Times are nanoseconds from the beginning of the first window.

/** Unpack the data; rejects where the browser cannot. */
async function readData() {
  const packed = document.getElementById("data").textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The spans of each worker: [first, end) in the columns of `spans`, which are ordered by worker and start. */
function rangesOf(spans, workers) {
  const ranges = Array.from({ length: workers }, () => [0, 0]);
  const { worker } = spans;
  for (let at = 0; at < worker.length; ) {
    let end = at;
    while (end < worker.length && worker[end] === worker[at]) end += 1;
    ranges[worker[at]] = [at, end];
    at = end;
  }
  return ranges;
}

/** The first span of a range that ends after a time. Spans of a worker do not overlap. */
function firstAfter(spans, [first, end], time) {
  let low = first;
  let high = end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans.start[middle] + spans.length[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The parts of the time that windows cover: [start, end], in order. Between them nothing is known. */
function extentsOf({ start, end }) {
  const extents = [];
  start.forEach((from, at) => {
    const last = extents[extents.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], end[at]);
    else extents.push([from, end[at]]);
  });
  return extents;
}
