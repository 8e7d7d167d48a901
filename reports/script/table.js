// Tables that sort, filter and are saved as CSV.
(() => {
  const { make, sizeOf } = foretrace;
  const FEW = 8, MANY = 15; // rows that need no filter; rows beyond which they scroll

  const textOf = (cell) => (cell?.innerText ?? cell?.textContent ?? "").trim().replace(/\s+/g, " ");

  foretrace.csv = (rows) =>
    rows.map((row) => row.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(",")).join("\r\n") + "\r\n";

  // Texts of a row, an empty one for each further column that a cell spans.
  const texts = (row) => [...row.cells].flatMap((cell) => [textOf(cell), ...Array(cell.colSpan - 1).fill("")]);

  foretrace.table = (table, name) => {
    const heads = [...(table.tHead?.rows ?? [])].at(-1), rows = [...table.tBodies[0].rows];
    if (!heads || rows.length < 2 || rows.some((row) => row.cells.length !== heads.cells.length)) return;
    const first = [...rows];
    let by = -1, way = 1;

    function order(column) {
      [by, way] = by === column ? (way > 0 ? [column, -1] : [-1, 1]) : [column, 1];
      const keyed = first.map((row, i) => ({ row, i, text: textOf(row.cells[column]) }));
      const sizes = keyed.map((one) => sizeOf(one.text));
      const numbers = sizes.some((s) => !Number.isNaN(s))
        && keyed.every((one, k) => !Number.isNaN(sizes[k]) || !/\d/.test(one.text[0] ?? ""));
      keyed.forEach((one, k) => (one.size = sizes[k]));
      if (by >= 0)
        keyed.sort((a, b) => {
          const none = numbers ? Number.isNaN(a.size) - Number.isNaN(b.size) : (a.text === "") - (b.text === "");
          return none || way * (numbers ? a.size - b.size : a.text.localeCompare(b.text, "en", { numeric: true })) || a.i - b.i;
        });
      table.tBodies[0].append(...keyed.map((one) => one.row));
      [...heads.cells].forEach((head, k) => head.setAttribute("aria-sort",
        k !== by ? "none" : way > 0 ? "ascending" : "descending"));
    }

    [...heads.cells].forEach((head, column) => {
      head.setAttribute("aria-sort", "none");
      const inside = make("button", { type: "button", class: "sort", onclick: () => order(column) }, ...head.childNodes);
      if (!textOf(inside)) inside.setAttribute("aria-label", "sort by this column");
      head.append(inside);
    });

    const count = make("output");
    function filter(event) {
      const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      let kept = 0;
      for (const row of first) {
        row.hidden = !words.every((word) => textOf(row).toLowerCase().includes(word) || row.textContent.toLowerCase().includes(word));
        kept += !row.hidden;
      }
      count.textContent = words.length ? `${kept} of ${first.length} rows` : "";
    }
    const save = () => foretrace.save(`${name}.csv`, foretrace.csv([texts(heads), ...[...table.tBodies[0].rows].filter((r) => !r.hidden).map(texts)]), "text/csv");
    const tools = make("div", { class: "tools corner" });
    if (rows.length > FEW)
      tools.append(make("input", { type: "search", placeholder: "filter rows", "aria-label": "filter rows", oninput: filter }), count);
    tools.append(make("button", { type: "button", title: "save this table as CSV", onclick: save }, "CSV"));
    const frame = table.closest(".scroll, .table"), inner = make("div", { class: "inner" });
    frame.classList.add("with");
    frame.append(inner);
    inner.append(table);
    frame.prepend(tools);
    if (rows.length > MANY) frame.classList.add("tall");
  };
})();
