// The kinds of activity that the timeline has, in their colours. Choosing one dims all others.

function startLegend(page, changed) {
  const { critical, profile } = page.data.windows;
  const used = new Set([...page.spans.kind, ...[...critical, ...profile].map(([kind]) => kind)]);
  const made = page.data.order
    .filter((kind) => used.has(kind))
    .map((kind) => {
      const { name } = page.data.kinds[kind];
      const button = element("button", { type: "button", "aria-pressed": "false", "data-kind": name }, swatch(page.data.kinds[kind]), name);
      button.addEventListener("click", () => {
        const alone = page.light?.kinds?.size === 1 && page.light.kinds.has(kind);
        page.light = alone ? null : { kinds: new Set([kind]) };
        changed();
      });
      return [kind, button];
    });
  byId("legend").replaceChildren(...made.map(([, button]) => element("li", {}, button)));
  return () => {
    for (const [kind, button] of made) button.setAttribute("aria-pressed", String(Boolean(page.light?.kinds?.has(kind))));
  };
}
