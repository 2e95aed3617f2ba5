// Rows of the timeline on canvas: kinds stacked from the bottom, and the critical path as a line below them.

const DIMMED = 0.16;
const LINE = 3; // height of the critical path, pixels

/** Make a canvas as large as given, in pixels of the screen. Returns its context, scaled to CSS pixels. */
function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Call draw(from, to, value) for each run of columns with an equal value. */
function runs(width, valueOf, draw) {
  for (let from = 0; from < width; ) {
    const value = valueOf(from);
    let to = from + 1;
    while (to < width && valueOf(to) === value) to += 1;
    if (value > 0) draw(from, to, value);
    from = to;
  }
}

/** Draw what `cover` has into a box. order: kinds, from the bottom up. */
function paintRow(context, cover, page, box, ink) {
  const { kinds } = page.data;
  const height = box.height - LINE - 1;
  const base = new Float32Array(cover.width);
  const step = box.width / cover.width;
  for (const dim of [0, kinds.length]) {
    for (const place of page.data.order) {
      const kind = place + dim;
      if (!cover.used.has(kind)) continue;
      const part = cover.parts[kind];
      context.fillStyle = kinds[place].colour;
      context.globalAlpha = dim ? DIMMED : 1;
      for (let from = 0; from < cover.width; ) {
        const [low, share] = [base[from], part[from]];
        let to = from + 1;
        while (to < cover.width && part[to] === share && base[to] === low) to += 1;
        if (share > 0) {
          const bottom = box.top + height * (1 - low);
          const tall = Math.max(0.5, height * share);
          context.fillRect(box.left + from * step, bottom - tall, (to - from) * step, tall);
        }
        from = to;
      }
      for (let x = 0; x < cover.width; x += 1) base[x] = Math.min(1, base[x] + part[x]);
    }
  }
  context.fillStyle = ink.ink;
  runs(
    cover.width,
    (x) => Math.ceil(Math.min(1, cover.path[x]) * 10 - 0.05),
    (from, to, tenths) => {
      context.globalAlpha = tenths / 10;
      context.fillRect(box.left + from * step, box.top + box.height - LINE, (to - from) * step, LINE);
    },
  );
  context.globalAlpha = 1;
}
