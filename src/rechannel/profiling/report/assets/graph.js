// Operators and the messages between them, in layers; components beside each other.

const SVG = "http://www.w3.org/2000/svg";

function drawGraph(page, chosen) {
  const { vertices, bundles } = page.data.graph;
  const box = byId("graph");
  byId("plan").hidden = !vertices.length;
  const buttons = vertices.map((vertex) => vertexButton(page, vertex, chosen));
  const components = [...new Set(vertices.map((vertex) => vertex.component))].sort((a, b) => a - b);
  for (const component of components) {
    const mine = vertices.map((_, at) => at).filter((at) => vertices[at].component === component);
    const layers = new Map();
    for (const at of mine) {
      if (!layers.has(vertices[at].layer)) layers.set(vertices[at].layer, []);
      layers.get(vertices[at].layer).push(at);
    }
    const lines = bundles.filter((bundle) => vertices[bundle.target].component === component);
    const inner = element("div", { class: "layers" });
    const made = element("div", { class: "component" }, inner);
    for (const [, row] of [...layers].sort(([a], [b]) => a - b)) {
      row.sort((a, b) => vertices[a].place - vertices[b].place);
      inner.append(element("div", { class: "layer" }, ...row.map((at) => buttons[at])));
    }
    box.append(made);
    new ResizeObserver(() => drawLines(inner, buttons, lines, page)).observe(inner);
  }
  return () => {
    vertices.forEach((vertex, at) => {
      const pressed = vertex.operator >= 0 && page.light?.operator === vertex.operator;
      buttons[at].setAttribute("aria-pressed", String(pressed));
    });
  };
}

function vertexButton(page, vertex, chosen) {
  const whole = vertex.kinds.reduce((sum, [, share]) => sum + share, 0);
  const parts = whole > 0 ? vertex.kinds : [];
  const bar = element(
    "span",
    { class: "bar", "aria-hidden": "true" },
    ...parts.map(([kind, share]) => element("span", { style: `flex:${share / whole};background:${page.data.kinds[kind].colour}`, title: page.data.kinds[kind].name })),
  );
  const more = [`${percent(vertex.profile)} of all time`, numbered(vertex.workers, "worker")];
  if (vertex.driven >= 0.0005) more.push(`${percent(vertex.driven)} in launches and results`);
  if (vertex.among >= 0.0005) more.push(`${percent(vertex.among)} in messages among them`);
  const button = element(
    "button",
    { type: "button", class: "vertex", "aria-pressed": "false" },
    element("strong", {}, percent(vertex.critical)),
    bar,
    element("span", { class: "name" }, vertex.name),
    element("span", { class: "more" }, more.join(" · ")),
  );
  button.addEventListener("click", () => chosen(vertex));
  return button;
}

/** Draw the lines of a component; a line is as wide as what it takes of the critical path. */
function drawLines(box, buttons, bundles, page) {
  box.querySelector("svg")?.remove();
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", box.scrollWidth);
  svg.setAttribute("height", box.scrollHeight);
  const origin = box.getBoundingClientRect();
  const at = (button) => {
    const place = button.getBoundingClientRect();
    const left = place.left - origin.left;
    const top = place.top - origin.top;
    return { x: left + place.width / 2, top, bottom: top + place.height };
  };
  const label = (x, y, text) => {
    const words = document.createElementNS(SVG, "text");
    words.setAttribute("x", x);
    words.setAttribute("y", y);
    words.textContent = text;
    svg.append(words);
  };
  for (const bundle of bundles) {
    const to = at(buttons[bundle.target]);
    for (const source of bundle.sources) {
      const from = at(buttons[source]);
      const line = document.createElementNS(SVG, "path");
      const down = from.bottom <= to.top;
      const [y1, y2] = down ? [from.bottom, to.top] : [from.top, to.top];
      const bend = down ? (y2 - y1) / 2 : -26;
      line.setAttribute("d", `M${from.x} ${y1} C${from.x} ${y1 + bend} ${to.x} ${y2 - Math.abs(bend)} ${to.x} ${y2}`);
      line.setAttribute("stroke-width", String(1.2 + Math.min(12, 40 * bundle.critical)));
      svg.append(line);
    }
    if (bundle.critical > 0) label(to.x + 8, to.top - 7, percent(bundle.critical));
  }
  svg.setAttribute("role", "img");
  const names = page.data.graph.vertices.map((vertex) => vertex.name);
  svg.setAttribute("aria-label", bundles.map((each) => `${each.sources.map((i) => names[i]).join(" and ")} to ${names[each.target]}: ${percent(each.critical)}`).join("; ") || "no messages between operators");
  box.append(svg);
}
