// A heat map: rows by columns, darker where more; each cell is told, and reached from the keyboard.
(() => {
  const { make, quantity, colour } = foretrace;
  const TALL = 16;

  // source: rows, columns or edges, unit, most, colour?, values by row, or get(first, last, width).
  foretrace.heat = (element, source) => {
    const canvas = make("canvas", { tabindex: 0, role: "application",
      "aria-label": "heat map; arrow keys tell each cell" });
    const names = make("div", { class: "rows" });
    const status = make("p", { class: "status", "aria-live": "polite" });
    element.replaceChildren(make("div", { class: "lanes" }, names, canvas), status);
    const tall = Math.max(Math.min(TALL, 640 / source.rows.length), 3);
    if (tall >= 11)
      names.append(...source.rows.map((name, i) => make("span", { style: `top:${i * tall}px;height:${tall}px`, title: name }, name)));
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
      pen.fillStyle = colour(source.colour ?? "--compute");
      values.forEach((line, r) => line.forEach((value, k) => {
        if (!value) return;
        pen.globalAlpha = Math.min(0.06 + (0.94 * value) / source.most, 1);
        pen.fillRect(k * each, r * tall, Math.max(each - (each > 6 ? 1 : 0), 1), tall - (tall > 5 ? 1 : 0));
      }));
      pen.globalAlpha = 1;
      if (row >= 0) {
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = 2;
        pen.strokeRect(column * each, row * tall, Math.max(each, 3), tall);
      }
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
