// Where time goes as nested boxes: job, phase, layer, op; a box opens to the full width.
(() => {
  const { make, quantity } = foretrace;
  const THIN = 0.0025; // share of the width below which boxes are one
  const LEAST = 30; // pixels of a box whose name is written

  // root: {name, value, kind?, children?}, or {root, open(path)} where children come when asked for.
  foretrace.tree = (element, given) => {
    const open = given.open, root = given.root ?? given;
    let top = [root];
    const path = make("nav", { class: "path", "aria-label": "where in the tree" });
    const boxes = make("div", { class: "boxes" });
    const status = make("p", { class: "status", "aria-live": "polite" });
    element.replaceChildren(path, boxes, status);

    const inside = (node) => node.children ?? [];
    const depth = (node) => 1 + Math.max(0, ...inside(node).map(depth));

    async function enter(nodes) {
      const node = nodes.at(-1);
      if (!node.children && open) node.children = await open(nodes.map((n) => n.name));
      if (!inside(node).length) return tell(nodes);
      top = nodes;
      draw();
      boxes.querySelector("button")?.focus();
    }

    function tell(nodes) {
      const node = nodes.at(-1);
      status.textContent = `${nodes.map((n) => n.name).join(" · ")}: ${says(node)}`;
      element.dataset.at = node.name;
    }

    const says = (node) => `${quantity(node.value)}, ${quantity(node.value / root.value, "")} of all`
      + (node.count ? `, ${node.count.toLocaleString("en")} ops` : "");

    function draw() {
      const node = top.at(-1), rows = Math.min(depth(node), 5);
      path.replaceChildren(...top.flatMap((one, i) => [
        ...(i ? [" › "] : []),
        make("button", { type: "button", onclick: () => enter(top.slice(0, i + 1)) }, one.name),
      ]), make("span", {}, ` ${says(node)}`));
      boxes.replaceChildren();
      boxes.style.height = `${rows * 30}px`;
      box([...top], 0, 1, 0, rows);
      tell(top);
    }

    function box(nodes, left, width, row, rows) {
      const node = nodes.at(-1), narrow = width * boxes.clientWidth < LEAST ? " narrow" : "";
      boxes.append(make("button", {
        type: "button", title: "",
        style: `left:${100 * left}%;width:${100 * width}%;top:${row * 30}px;`
          + `background-color:var(--${node.kind ?? "tint"})`,
        class: (node.kind ? (foretrace.inkOn(node.kind) === "--ink" ? "filled pale" : "filled") : "") + narrow, "aria-label": `${node.name}, ${says(node)}`,
        onclick: () => enter(row || top.length === 1 ? nodes : top.slice(0, -1)),
        onfocus: () => tell(nodes),
        onpointermove: (e) => foretrace.tip([node.name, says(node)], e.clientX, e.clientY),
        onpointerleave: () => foretrace.tip(null),
      }, make("span", {}, narrow ? "" : node.name)));
      if (row + 1 >= rows) return;
      let at = left, rest = 0, many = 0;
      for (const child of inside(node)) {
        const share = (width * child.value) / node.value;
        if (share < THIN) {
          rest += share;
          many += 1;
          continue;
        }
        box([...nodes, child], at, share, row + 1, rows);
        at += share;
      }
      if (rest > THIN / 4)
        boxes.append(make("span", { class: "rest", style: `left:${100 * at}%;width:${100 * rest}%;top:${(row + 1) * 30}px`,
          title: `${many} more` }));
    }

    boxes.addEventListener("keydown", (event) => {
      const all = [...boxes.querySelectorAll("button")], i = all.indexOf(event.target);
      const level = (one) => parseFloat(one.style.top), at = (one) => parseFloat(one.style.left);
      const same = all.filter((one) => level(one) === level(all[i]));
      const go = {
        ArrowRight: same[same.indexOf(all[i]) + 1], ArrowLeft: same[same.indexOf(all[i]) - 1],
        ArrowDown: all.find((one) => level(one) > level(all[i]) && at(one) >= at(all[i]) - 1e-6),
        ArrowUp: all.findLast((one) => level(one) < level(all[i]) && at(one) <= at(all[i]) + 1e-6),
      }[event.key];
      if (event.key === "Escape" && top.length > 1) enter(top.slice(0, -1));
      if (go) event.preventDefault(), go.focus();
    });
    draw();
    let wide = boxes.clientWidth;
    new ResizeObserver(() => boxes.clientWidth !== wide && ((wide = boxes.clientWidth), draw())).observe(boxes);
  };
})();
