// A heat map: rows by columns, darker where more; each cell is told, and reached from the keyboard.
(() => {
  const { make, quantity, colour, steps } = foretrace;
  const TALL = 16, LETTERS = 13, MOST = 640; // pixels: a row, a name that can be read, the drawing

  // source: rows, columns or edges, unit, most, colour?, values by row, or get(first, last, width).
  foretrace.heat = (element, source) => {
    const canvas = make("canvas", { tabindex: 0, role: "application",
      "aria-label": "heat map; arrow keys tell each cell" });
    const names = make("div", { class: "rows" });
    const status = make("p", { class: "status", "aria-live": "polite" });
    const legend = make("div", { class: "keys" }, ...[0.25, 0.5, 0.75, 1].map((share) => make("span", {},
      make("i", { style: `background-color:color-mix(in srgb, var(--${source.colour ?? "compute"}) ${100 * share}%, var(--paper))` }),
      quantity(share * source.most, source.unit))));
    const ticks = make("div", { class: "ticks" });
    element.replaceChildren(legend, make("div", { class: "lanes" }, names, canvas),
      make("div", { class: "ruled" }, make("span"), ticks), status);
    const parted = (name) => {
      const [own, alike] = name.split(/(?= \+ \d+ alike$)/); // there is no room for it on a phone
      return alike ? [own, make("small", {}, alike)] : [own];
    };
    const tall = Math.max(Math.min(TALL, MOST / source.rows.length), 3);
    const each = Math.ceil(LETTERS / tall); // of rows too thin for their names every so many has one
    names.append(...source.rows.flatMap((name, i) => (i % each ? []
      : [make("span", { style: `top:${i * tall}px;height:${each * tall}px`, title: name }, ...parted(name))])));
    names.style.height = canvas.style.height = `${tall * source.rows.length}px`;
    let values = source.values ?? [], edges = source.edges, row = -1, column = 0;

    const columns = () => values[0]?.length ?? 0;
    const named = (k) => source.columns?.[k] ?? `${quantity(edges[k])} to ${quantity(edges[k + 1])}`;
    const says = (r, k) => [source.rows[r], named(k), values[r][k] === null ? "none" : quantity(values[r][k], source.unit)];

    function draw() {
      const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, each = wide / columns();
      canvas.width = wide * ratio;
      canvas.height = tall * source.rows.length * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.fillStyle = colour(`--${source.colour ?? "compute"}`);
      values.forEach((line, r) => line.forEach((value, k) => {
        if (!value) return;
        pen.globalAlpha = Math.min(0.06 + (0.94 * value) / source.most, 1);
        pen.fillRect(k * each, r * tall, each + 0.5, tall - (tall > 8 ? 1 : 0));
      }));
      pen.globalAlpha = 1;
      axis(wide);
      if (row >= 0) {
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = 2;
        pen.strokeRect(column * each, row * tall, Math.max(each, 3), tall);
      }
    }

    // Times below the columns, where they are spans of time.
    function axis(wide) {
      if (!edges) return;
      const [first, last] = [edges[0], edges.at(-1)];
      ticks.replaceChildren(...steps(first, last, wide / 110)[0].map((time) =>
        make("span", { style: `left:${(100 * (time - first)) / (last - first)}%` }, quantity(time))));
    }

    function go(r, k) {
      row = Math.min(Math.max(r, 0), source.rows.length - 1);
      column = Math.min(Math.max(k, 0), columns() - 1);
      status.textContent = says(row, column).join("  |  ");
      draw();
    }

    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (by) event.preventDefault(), row < 0 ? go(0, 0) : go(row + by[0], column + by[1]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const r = Math.floor((event.clientY - box.top) / tall), k = Math.floor(((event.clientX - box.left) / box.width) * columns());
      foretrace.tip(values[r]?.[k] === undefined ? null : says(r, k), event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => foretrace.tip(null));
    async function ask() {
      if (source.get) ({ edges, values } = await source.get(...source.span, canvas.clientWidth));
      draw();
    }
    new ResizeObserver(draw).observe(canvas);
    foretrace.onColours(draw);
    ask();
  };
})();
