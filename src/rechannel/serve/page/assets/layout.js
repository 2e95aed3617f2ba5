// Where the nodes of a graph go: layers by distance from the sources, lines through the gaps between boxes. Pure.

const SWEEPS = 8;

/** nodes: [{name, upstreams}]. along, across: the step between layers, and between neighbours in one. Returns {cells, lines, layers}. */
export function layout(nodes, along, across) {
  const depth = depths(nodes);
  const { layers, links } = cellsOf(nodes, depth);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) order(layers, links, sweep % 2 === 0);
  place(layers, links, across);
  const cells = layers.flat();
  for (const cell of cells) cell.along = cell.layer * along;
  return { cells: cells.filter((cell) => !cell.bend), lines: linesOf(cells, links), layers: layers.length };
}

function depths(nodes) {
  const depth = new Map();
  const users = new Map(nodes.map((node) => [node.name, []]));
  for (const node of nodes) {
    depth.set(node.name, node.upstreams.reduce((deep, up) => Math.max(deep, (depth.get(up) ?? -1) + 1), 0));
    for (const up of node.upstreams) users.get(up)?.push(node.name);
  }
  for (const { name, upstreams } of nodes) {
    const mine = users.get(name);
    if (!upstreams.length && mine.length) depth.set(name, Math.min(...mine.map((user) => depth.get(user) - 1)));
  }
  return depth;
}

function cellsOf(nodes, depth) {
  const layers = Array.from({ length: Math.max(0, ...depth.values()) + 1 }, () => []);
  const first = new Map();
  const links = [];
  for (const node of nodes) {
    const cell = { node, bend: false, layer: depth.get(node.name), at: 0 };
    first.set(node.name, cell);
    layers[cell.layer].push(cell);
  }
  for (const node of nodes) {
    for (const name of new Set(node.upstreams.filter((up) => first.has(up)))) {
      let upper = first.get(name);
      const path = { from: name, to: node.name };
      for (let layer = upper.layer + 1; layer < depth.get(node.name); layer += 1) {
        const bend = { node: null, bend: true, layer, at: 0 };
        layers[layer].push(bend);
        links.push({ upper, lower: bend, path });
        upper = bend;
      }
      links.push({ upper, lower: first.get(node.name), path });
    }
  }
  return { layers, links };
}

const around = (links, cell, down) => (down ? links.filter((link) => link.lower === cell).map((link) => link.upper) : links.filter((link) => link.upper === cell).map((link) => link.lower));
const mean = (values, other) => (values.length ? values.reduce((total, value) => total + value, 0) / values.length : other);

function order(layers, links, down) {
  for (const layer of down ? layers : [...layers].reverse()) {
    const wanted = new Map(layer.map((cell, at) => [cell, mean(around(links, cell, down).map((other) => layers[other.layer].indexOf(other)), at)]));
    layer.sort((a, b) => wanted.get(a) - wanted.get(b));
  }
}

function place(layers, links, across) {
  for (const layer of layers) layer.forEach((cell, at) => (cell.at = at * across));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      apart(layer, layer.map((cell) => mean(around(links, cell, sweep % 2 === 0).map((other) => other.at), cell.at)), across);
    }
  }
  const least = Math.min(0, ...layers.flat().map((cell) => cell.at));
  for (const cell of layers.flat()) cell.at -= least;
}

/** The places nearest to the wanted ones in which neighbours keep their distance: those out of order are pooled at their mean. */
function apart(layer, wanted, across) {
  const pools = [];
  wanted.forEach((want, at) => {
    pools.push([want - at * across, 1]);
    while (pools.length > 1 && pools.at(-2)[0] > pools.at(-1)[0]) {
      const [[b, m], [a, n]] = [pools.pop(), pools.pop()];
      pools.push([(a * n + b * m) / (n + m), n + m]);
    }
  });
  pools.flatMap(([at, many]) => Array(many).fill(at)).forEach((at, number) => (layer[number].at = at + number * across));
}

function linesOf(cells, links) {
  const made = new Map();
  for (const { upper, lower, path } of links) {
    if (!made.has(path)) made.set(path, { ...path, points: [upper] });
    made.get(path).points.push(lower);
  }
  return [...made.values()];
}
