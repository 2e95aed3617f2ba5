// Windows: what the critical path consists of, beside what all workers spent their time on.

const PANEL = 84;
const PANELS = [["critical", "critical path"], ["profile", "all time"]];

class Windows {
  constructor(page) {
    this.page = page;
    this.box = byId("windows");
    this.canvas = this.box.querySelector("canvas");
    this.names = this.box.querySelector(".names");
    const { critical, profile, start } = page.data.windows;
    const place = new Map(page.data.order.map((kind, at) => [kind, at]));
    const ordered = (shares) => [...shares].sort((a, b) => place.get(a[0]) - place.get(b[0]));
    this.shares = { critical: ordered(critical), profile: ordered(profile) };
    this.box.hidden = start.length === 0;
  }

  draw(view, left, width, above, ink) {
    const gap = above ? 20 : 6;
    const height = PANELS.length * (PANEL + gap) + 4;
    this.box.style.height = `${height}px`;
    const context = sized(this.canvas, left + width, height);
    const { start, end } = this.page.data.windows;
    const scale = width / (view.end - view.start);
    const from = Math.max(0, end.findIndex((time) => time > view.start));
    this.tops = [];
    PANELS.forEach(([what], panel) => {
      const top = panel * (PANEL + gap) + gap;
      this.tops.push(top);
      context.fillStyle = ink.row;
      context.fillRect(left, top, width, PANEL);
      for (let at = from; at < start.length && start[at] < view.end; at += 1) {
        const x = Math.max(left, left + (start[at] - view.start) * scale);
        const to = Math.min(left + width, left + (end[at] - view.start) * scale);
        const room = to - x > 4 ? 0.5 : 0;
        let y = top + PANEL;
        for (const [kind, shares] of this.shares[what]) {
          const tall = PANEL * shares[at];
          if (!tall) continue;
          y -= tall;
          context.globalAlpha = !this.page.light?.kinds || this.page.light.kinds.has(kind) ? 1 : DIMMED;
          context.fillStyle = this.page.data.kinds[kind].colour;
          context.fillRect(x, y, Math.max(0.5, to - x - room), tall);
        }
        context.globalAlpha = 1;
      }
    });
    this.names.replaceChildren(
      ...PANELS.map(([, name], panel) => {
        const at = above ? `top:${this.tops[panel] - 18}px;width:${width}px` : `top:${this.tops[panel]}px;width:${left}px;height:${PANEL}px`;
        return element("span", { style: at }, element("span", { class: "name" }, above ? `by window: ${name}` : name));
      }),
    );
  }

  /** Words of the window at a time. height: in the box, pixels. */
  words(time, height) {
    const { start, end, batch } = this.page.data.windows;
    const at = start.findIndex((from, i) => from <= time && time < end[i]);
    if (at < 0 || !this.tops) return null;
    const [what, name] = PANELS[height >= this.tops[1] - 4 ? 1 : 0];
    const shares = this.shares[what].map(([kind, of]) => [kind, of[at]]).filter(([, share]) => share > 0);
    shares.sort((a, b) => b[1] - a[1]);
    const lines = shares.slice(0, LISTED + 1).map(([kind, share]) => [this.page.data.kinds[kind], `${this.page.data.kinds[kind].name}: ${percent(share)}`]);
    const title = batch[at] === null ? `window ${at + 1}` : `batch ${batch[at]}`;
    if (!lines.length) lines.push([null, what === "critical" ? "no critical path: every worker waited at some time" : "nothing was done"]);
    return [`${title}: ${name}`, [[null, `from ${duration(start[at])}, ${duration(end[at] - start[at])} long`], ...lines]];
  }
}
