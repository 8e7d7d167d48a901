// A timeline: rows that fold, bars over time, to zoom, pan, search and walk through by keyboard.
// Its source has span, rows, kinds, said, get(first, last, width, lanes), and may have resident,
// find(text) and tell(lane, time, bar), which says more of the chosen bar and answers with the places
// that belong to it, [{lane, start, end}]: see docs/decisions/0023-one-drawing-stack.md.
(() => {
  const { make, quantity, colour, steps, tip } = foretrace;
  const LEAF = 17, SQUEEZED = 4, LEAST = 14, MOST = 64; // pixels: a lane, one folded, a folded row
  const RULER = 24, LETTER = 5.7;
  const KEYS = "Arrows: next bar, next row. + and -: zoom. Shift and arrows: move. Enter: zoom to "
    + "the bar. 0: all. /: search. Wheel with Ctrl: zoom; drag: move; drag on the ruler: zoom in.";
  const MEMBERS = " m: the next rank of a collective.";

  // Bars by lane: where each lane begins, and how far its bars reach, so that those of a span are
  // found by halving.
  class Lanes {
    constructor(bars, lanes) {
      this.bars = bars;
      this.from = new Int32Array(lanes + 1);
      for (const lane of bars.lane) this.from[lane + 1]++;
      for (let i = 0; i < lanes; i++) this.from[i + 1] += this.from[i];
      this.reach = new Float64Array(bars.lane.length);
      for (let i = 0; i < bars.lane.length; i++) {
        const new_ = i === 0 || bars.lane[i] !== bars.lane[i - 1];
        this.reach[i] = new_ ? bars.end[i] : Math.max(this.reach[i - 1], bars.end[i]);
      }
    }

    // The first bar of a lane that reaches beyond a time.
    after(lane, time) {
      let low = this.from[lane], high = this.from[lane + 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.reach[middle] > time) high = middle;
        else low = middle + 1;
      }
      return low;
    }
  }

  foretrace.timeline = (element, source) => {
    const whole = [...source.span], lanes = 1 + Math.max(-1, ...source.rows.map((r) => r.lane ?? -1));
    const nodes = source.rows.map((row, i) => ({ ...row, i, open: row.open ?? true, below: [] }));
    const stack = [];
    for (const node of nodes) {
      stack.length = node.level;
      node.path = [...stack.map((n) => n.name), node.name];
      for (const above of stack) if (node.lane !== undefined) above.below.push(node.lane);
      if (node.lane !== undefined) node.below = [node.lane];
      node.inside = [...stack];
      stack.push(node);
    }
    let view = [...whole], laid = [], table = null, picked = -1, words = "", match = null, asked = 0, kept = null, also = [];

    const search = make("input", { type: "search", placeholder: "search ops", "aria-label": "search ops" });
    const found = make("output");
    const button = (text, label, act) =>
      make("button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
    const legend = make("span", { class: "keys" });
    for (const { name, colour: hue } of source.kinds)
      legend.append(make("span", {}, make("i", { class: name === "waiting" ? "hatched" : "",
        style: `background-color:var(--${hue})` }), name));
    const bar = make("div", { class: "tools" }, search, found,
      button("‹", "the match before", () => step(-1)), button("›", "the next match", () => step(1)),
      button("−", "zoom out", () => zoom(2)), button("+", "zoom in", () => zoom(0.5)),
      button("all", "show all of the time", () => show(...whole)),
      button("fold", "fold all rows", () => fold(false)),
      button("unfold", "unfold all rows", () => fold(true)), legend,
      button("PNG", "save as picture", save));
    const ruler = make("canvas", { class: "ruler", height: RULER });
    const names = make("div", { class: "rows" });
    const canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": `timeline. ${KEYS}` });
    const body = make("div", { class: "lanes" }, names, canvas);
    const status = make("p", { class: "status", "aria-live": "polite" });
    const hint = make("p", { class: "hint" }, source.said ? `${source.said} ` : "", KEYS, source.tell ? MEMBERS : "");
    element.replaceChildren(bar, make("div", { class: "ruled" }, make("span"), ruler), body, status, hint);

    const shown = (node) => node.inside.every((above) => above.open);
    const folded = (node) => node.lane === undefined && !node.open;

    // Heights of the rows that are shown; a folded row squeezes what is in it.
    function lay() {
      laid = [];
      let y = 0;
      for (const node of nodes.filter(shown)) {
        const leaf = node.lane !== undefined;
        const tall = leaf ? LEAF
          : folded(node) ? Math.max(LEAST, Math.min(MOST, SQUEEZED * node.below.length)) : LEAST + 4;
        const lanesIn = leaf ? [node.lane] : folded(node) ? node.below : [];
        laid.push({ node, y, tall, lanes: lanesIn });
        y += tall + (leaf ? 1 : 3);
      }
      names.replaceChildren(...laid.map(({ node, y: top, tall }) => make(node.lane === undefined ? "button" : "span", {
        type: node.lane === undefined ? "button" : undefined,
        style: `top:${top}px;height:${tall}px;padding-left:${6 + 11 * node.level}px`,
        class: node.level ? "" : "head", title: node.path.join(" · "),
        "aria-expanded": node.lane === undefined ? String(node.open) : undefined,
        onclick: () => node.lane === undefined && toggle(node),
      }, node.name)));
      names.style.height = `${y}px`;
      canvas.style.height = `${Math.min(y, Math.max(260, innerHeight * 0.72))}px`;
      body.style.maxHeight = canvas.style.height;
      ask();
    }

    function toggle(node) {
      node.open = !node.open;
      const at = laid.findIndex((row) => row.node === node);
      lay();
      names.children[at]?.focus();
    }

    function fold(open) {
      for (const node of nodes) if (node.lane === undefined) node.open = open || node.level === 0;
      lay();
    }

    // Rows that are seen, and a screen above and below: a server is asked for no others.
    const near = () => laid.filter(({ y, tall }) => source.resident
      || (y + tall > body.scrollTop - body.clientHeight && y < body.scrollTop + 2 * body.clientHeight));

    // The bar of a lane that begins then; -1 where it is drawn together with others.
    function barAt({ lane, start }) {
      const i = firstFrom(lane, start);
      return i < table.from[lane + 1] && table.bars.start[i] === start ? i : -1;
    }

    // Bars of what is seen: asked once of the page, at every view of a server.
    async function ask() {
      draw();
      if (source.resident && table) return;
      const mine = ++asked;
      await new Promise((done) => setTimeout(done, table ? 50 : 0));
      if (mine !== asked) return;
      try {
        const bars = await source.get(...view, canvas.clientWidth || 1000, near().flatMap((r) => r.lanes));
        if (mine !== asked && !source.resident) return;
        const first = !table; // who searched before is answered now
        table = new Lanes(bars, lanes);
        picked = kept ? barAt(kept) : -1;
        if (picked >= 0) say(picked);
        if (source.find && !first) light();
        else look();
      } catch (error) {
        status.textContent = `${error.message ?? error}`;
      }
      draw();
    }

    const px = (time) => ((time - view[0]) / (view[1] - view[0])) * canvas.clientWidth;
    const at = (x) => view[0] + (x / canvas.clientWidth) * (view[1] - view[0]);
    let waitingFrame = 0;

    function draw() {
      cancelAnimationFrame(waitingFrame);
      waitingFrame = requestAnimationFrame(paint);
    }

    function sized(one, tall) {
      const ratio = devicePixelRatio || 1, wide = one.clientWidth;
      one.width = Math.round(wide * ratio);
      one.height = Math.round(tall * ratio);
      const pen = one.getContext("2d");
      pen.scale(ratio, ratio);
      pen.clearRect(0, 0, wide, tall);
      return pen;
    }

    function hatch(pen, ink) {
      const tile = make("canvas", { width: 6, height: 6 }), own = tile.getContext("2d");
      own.strokeStyle = ink;
      own.lineWidth = 1.6;
      own.beginPath();
      for (const k of [-3, 3, 9]) own.moveTo(k - 3, 6), own.lineTo(k + 3, 0);
      own.stroke();
      return pen.createPattern(tile, "repeat");
    }

    function paint() {
      if (!canvas.isConnected || !canvas.clientWidth) return;
      const wide = canvas.clientWidth, tall = canvas.clientHeight, top = body.scrollTop;
      const pen = sized(canvas, tall);
      const inks = source.kinds.map((kind) => colour(`--${kind.colour}`)), line = colour("--line"), ink = colour("--ink");
      const waits = source.kinds.map((kind) => kind.name === "waiting");
      const hatched = hatch(pen, colour("--waiting"));
      pen.fillStyle = line;
      const [marks] = steps(view[0] - source.span[0], view[1] - source.span[0], wide / 110);
      for (const mark of marks) pen.fillRect(Math.round(px(mark + source.span[0])), 0, 1, tall);
      for (const { y, tall: high, lanes: own, node } of laid) {
        if (y + high < top || y > top + tall) continue;
        if (node.level === 0) (pen.fillStyle = line), pen.fillRect(0, y - top - 2, wide, 1);
        const each = high / Math.max(own.length, 1);
        if (table) own.forEach((lane, k) => lay_(pen, lane, y - top + k * each, each));
        if (source.find) own.forEach((lane, k) => placesOf.get(lane)?.forEach(({ start, end }) => {
          pen.fillStyle = ink;
          pen.fillRect(px(start), y - top + k * each, Math.max(px(end) - px(start), 1), 1.5);
        }));
      }
      mark(pen, top);
      axis(marks);

      function lay_(brush, lane, y, high) {
        const { bars } = table, thick = Math.max(high - (high > 6 ? 1 : 0), 0.8);
        const spent = new Float64Array(source.kinds.length);
        let pixel = -1, dim = true;
        const flush = () => {
          if (pixel < 0) return;
          let most = 0;
          for (let k = 1; k < spent.length; k++) if (spent[k] > spent[most]) most = k;
          brush.globalAlpha = dim ? 0.15 : 1;
          brush.fillStyle = inks[most];
          brush.fillRect(pixel, y, 1, thick);
          spent.fill(0);
          pixel = -1;
          dim = true;
        };
        for (let i = table.after(lane, view[0]); i < table.from[lane + 1]; i++) {
          if (bars.start[i] > view[1]) break;
          const from = Math.max(px(bars.start[i]), -1), to = Math.min(px(bars.end[i]), wide + 1);
          const out = match !== null && !match[bars.name[i]];
          if (to - from < 1) {
            if (Math.floor(from) !== pixel) flush();
            pixel = Math.floor(from);
            spent[bars.kind[i]] += bars.end[i] - bars.start[i];
            dim &&= out;
            continue;
          }
          flush();
          brush.globalAlpha = out ? 0.15 : 1;
          const width = Math.max(to - from - (to - from > 4 ? 0.6 : 0), 1);
          if (waits[bars.kind[i]]) {
            brush.globalAlpha *= 0.25;
            brush.fillStyle = inks[bars.kind[i]];
            brush.fillRect(from, y, width, thick);
            brush.globalAlpha *= 4;
            brush.fillStyle = hatched;
          } else brush.fillStyle = inks[bars.kind[i]];
          brush.fillRect(from, y, width, thick);
          if (to - from > 44 && high > 11) label(brush, i, from, to - from, y, high);
        }
        flush();
        brush.globalAlpha = 1;
      }
    }

    function label(pen, i, from, width, y, high) {
      const text = called(i).slice(0, Math.floor((width - 8) / LETTER));
      pen.font = "11px system-ui, Arial, sans-serif";
      const kind = source.kinds[table.bars.kind[i]];
    pen.fillStyle = colour(kind.name === "waiting" ? "--ink" : foretrace.inkOn(kind.colour));
      pen.textBaseline = "middle";
      pen.fillText(text, Math.max(from, 0) + 4, y + high / 2);
    }

    // The chosen bar is framed, those that belong to it with a thinner line.
    function mark(pen, top) {
      if (picked < 0 || !table) return;
      pen.strokeStyle = colour("--ink");
      for (const { lane, start, end } of also) frame(pen, top, lane, start, end, 1.5);
      frame(pen, top, table.bars.lane[picked], table.bars.start[picked], table.bars.end[picked], 2);
    }

    function frame(pen, top, lane, start, end, thick) {
      const row = laid.find((one) => one.lanes.includes(lane));
      if (!row) return;
      const each = row.tall / row.lanes.length, y = row.y - top + each * row.lanes.indexOf(lane);
      const from = px(start), to = px(end);
      pen.lineWidth = thick;
      pen.strokeRect(from - 1, y - 1, Math.max(to - from, 2) + 2, each + 1);
    }

    function axis(marks) {
      const pen = sized(ruler, RULER);
      pen.font = "11.5px system-ui, Arial, sans-serif";
      pen.fillStyle = colour("--soft");
      for (const time of marks) {
        const x = px(time + source.span[0]);
        pen.fillRect(Math.round(x), RULER - 5, 1, 5);
        pen.textAlign = x > 20 ? "center" : "left";
        if (x >= 0 && x < ruler.clientWidth - 24) pen.fillText(moment(time), x, 13);
      }
    }

    // A time in the unit of the span that is seen, so that neighbours differ.
    function moment(time) {
      const wide = view[1] - view[0];
      const [scale, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]
        .find(([s]) => wide >= s * 2) ?? [1e-9, "ns"];
      const [, each] = steps(0, wide, canvas.clientWidth / 110);
      const places = Math.max(0, -Math.floor(Math.log10((each / scale) * 1.0001)));
      return `${(time / scale).toFixed(Math.min(places, 9))} ${unit}`;
    }

    function show(first, last) {
      const least = (whole[1] - whole[0]) / 1e9, wide = Math.min(Math.max(last - first, least), whole[1] - whole[0]);
      const from = Math.min(Math.max(first, whole[0]), whole[1] - wide);
      view = [from, from + wide];
      element.dataset.view = view.join(" ");
      ask();
    }

    function zoom(factor, around = (view[0] + view[1]) / 2) {
      show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
    }

    const called = (i) => {
      const { bars } = table, kind = source.kinds[bars.kind[i]].name;
      if (bars.count[i] > 1) return `${bars.count[i].toLocaleString("en")} ops, mostly ${kind}`;
      return bars.name[i] >= 0 ? nameOf(bars.names[bars.name[i]]) : kind;
    };
    const nameOf = (entry) => (Array.isArray(entry) ? entry[0] : entry);

    function facts(i) {
      const { bars } = table, row = nodes.find((node) => node.lane === bars.lane[i]);
      const busy = bars.busy?.[i] ?? bars.end[i] - bars.start[i];
      return [called(i), `${source.kinds[bars.kind[i]].name}, ${quantity(busy)}`
        + (bars.count[i] > 1 ? ` in ${quantity(bars.end[i] - bars.start[i])}` : ""),
      `starts at ${moment(bars.start[i] - whole[0])}`, row.path.join(" · ")];
    }

    function say(i) {
      const { bars } = table;
      status.textContent = facts(i).join("  |  ");
      element.dataset.picked = facts(i)[0];
      if (source.tell && bars.count[i] === 1) tell(bars.lane[i], bars.start[i], bars.end[i], i);
    }

    // What its source knows of the chosen bar, and which others belong to it.
    async function tell(lane, start, end, i) {
      try {
        const more = (await source.tell(lane, (start + end) / 2, i)) ?? [];
        if (kept && kept.lane === lane && kept.start === start) (also = more), draw();
      } catch (error) {
        status.textContent = `${error.message ?? error}`;
      }
    }

    // The next of the bars that belong to the chosen one, from lane to lane and round again.
    function nextMember() {
      if (picked < 0 || !also.length) return;
      const lane = table.bars.lane[picked], next = also.find((one) => one.lane > lane) ?? also[0];
      reach(next.lane, next.start, next.end);
    }

    function pick(i, seen = true) {
      picked = i;
      kept = i < 0 ? null : { lane: table.bars.lane[i], start: table.bars.start[i] };
      also = [];
      if (i < 0) return void ((status.textContent = ""), draw());
      say(i);
      if (seen) {
        const { bars } = table, wide = view[1] - view[0];
        const out = bars.end[i] < view[0] + wide * 0.02 || bars.start[i] > view[1] - wide * 0.02;
        for (const above of nodes.find((n) => n.lane === bars.lane[i]).inside.slice(0, 1))
          if (!above.open) toggle(above);
        if (out) show(bars.start[i] - wide / 3, bars.start[i] + (wide * 2) / 3);
        uncover(bars.lane[i]);
      }
      draw();
    }

    function uncover(lane) {
      const row = laid.find((one) => one.lanes.includes(lane));
      if (row && (row.y < body.scrollTop || row.y + row.tall > body.scrollTop + body.clientHeight))
        body.scrollTop = row.y - body.clientHeight / 2;
    }

    function under(event) {
      if (!table) return -1;
      const box = canvas.getBoundingClientRect();
      const y = event.clientY - box.top + body.scrollTop, time = at(event.clientX - box.left);
      const row = laid.find((one) => y >= one.y && y < one.y + one.tall);
      if (!row || !row.lanes.length) return -1;
      const lane = row.lanes[Math.floor(((y - row.y) / row.tall) * row.lanes.length)];
      const slack = (1.5 / canvas.clientWidth) * (view[1] - view[0]);
      let best = -1;
      for (let i = table.after(lane, time - slack); i < table.from[lane + 1] && table.bars.start[i] <= time + slack; i++)
        if (best < 0 || table.bars.start[i] <= time) best = i;
      return best;
    }

    // The bar beside the chosen one; of the first lane seen where none is chosen.
    function neighbour(way) {
      if (!table) return;
      const seen = laid.flatMap((row) => row.lanes).filter((lane) => table.from[lane] < table.from[lane + 1]);
      if (!seen.length) return;
      if (picked < 0) return pick(Math.min(table.after(seen[0], view[0]), table.from[seen[0] + 1] - 1));
      const lane = table.bars.lane[picked], next = picked + way;
      if (next >= table.from[lane] && next < table.from[lane + 1]) pick(next);
    }

    function otherLane(way) {
      if (!table) return;
      const seen = laid.flatMap((row) => row.lanes).filter((lane) => table.from[lane] < table.from[lane + 1]);
      const lane = picked < 0 ? seen[0] : seen[seen.indexOf(table.bars.lane[picked]) + way];
      if (lane === undefined) return;
      const time = picked < 0 ? view[0] : table.bars.start[picked];
      pick(Math.min(table.after(lane, time), table.from[lane + 1] - 1));
    }

    let places = [], place = -1, placesOf = new Map(); // by lane

    // Which names of what is drawn have the text that is searched for.
    function light() {
      match = words ? table.bars.names.map((entry) => nameOf(entry).toLowerCase().includes(words)) : null;
    }

    // What the search finds: its bars stay bright, the others fade.
    async function look() {
      words = search.value.trim().toLowerCase();
      [places, place, placesOf] = [[], -1, new Map()];
      if (!words || !table) {
        match = null;
        found.textContent = "";
        return draw();
      }
      const { bars } = table;
      light();
      draw();
      if (source.find) {
        const mine = words;
        await new Promise((done) => setTimeout(done, 200)); // who types is not done yet
        const told = mine === words ? await source.find(words) : null;
        if (mine !== words) return;
        places = told.at;
        placesOf = Map.groupBy(places, (one) => one.lane);
        found.textContent = `${told.ops.toLocaleString("en")} ops, ${quantity(told.seconds)}`
          + (places.length < told.ops ? `; the first ${places.length.toLocaleString("en")} are marked` : "");
        return draw();
      }
      let ops = 0, busy = 0;
      for (let i = 0; i < bars.lane.length; i++)
        if (match[bars.name[i]]) {
          places.push({ lane: bars.lane[i], start: bars.start[i], i });
          ops += 1;
          busy += bars.end[i] - bars.start[i];
        }
      places.sort((a, b) => a.start - b.start);
      const known = bars.names.filter((entry, k) => match[k] && Array.isArray(entry));
      if (known.length) {
        const all = known.reduce((sum, entry) => sum + entry[1], 0);
        busy = known.reduce((sum, entry) => sum + entry[2], 0);
        found.textContent = `${all.toLocaleString("en")} ops, ${quantity(busy)} in all`
          + (ops < all ? `; ${ops.toLocaleString("en")} drawn one by one` : "");
      } else found.textContent = `${ops.toLocaleString("en")} ops, ${quantity(busy)} in all`;
      draw();
    }

    function step(way) {
      if (!places.length) return;
      place = (place + way + places.length) % places.length;
      const { lane, start, end } = places[place];
      if (source.find) reach(lane, start, end);
      else pick(firstFrom(lane, start));
      found.textContent = found.textContent.replace(/(: no\. .*)?$/, `: no. ${place + 1}`);
    }

    function firstFrom(lane, start) {
      let i = table.after(lane, start);
      while (i < table.from[lane + 1] - 1 && table.bars.start[i] < start) i++;
      return i;
    }

    // A place that may be beyond what is drawn: it is chosen when its bars have come.
    function reach(lane, start, end) {
      if (source.resident) return pick(barAt({ lane, start }));
      const took = Math.max(end - start, (whole[1] - whole[0]) / 1e9), middle = (start + end) / 2;
      const wide = Math.min(view[1] - view[0], 40 * took);
      const [variant] = nodes.find((node) => node.lane === lane).inside;
      if (!variant.open) toggle(variant);
      kept = { lane, start };
      uncover(lane);
      if (start >= view[0] && end <= view[1] && px(end) - px(start) > 3) ask();
      else show(middle - wide / 2, middle + wide / 2);
    }

    function save() {
      canvas.toBlob((picture) => foretrace.save(`${foretrace.fileName(document.title, "timeline")}.png`, picture));
    }

    search.addEventListener("input", look);
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") (search.value = ""), look(), canvas.focus();
    });
    canvas.addEventListener("keydown", (event) => {
      const wide = view[1] - view[0], side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const acts = {
        ArrowLeft: () => (event.shiftKey ? show(view[0] - wide / 4, view[1] - wide / 4) : neighbour(side)),
        ArrowRight: () => (event.shiftKey ? show(view[0] + wide / 4, view[1] + wide / 4) : neighbour(side)),
        ArrowUp: () => otherLane(-1), ArrowDown: () => otherLane(1),
        m: nextMember, "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
        0: () => show(...whole), Home: () => show(...whole), "/": () => search.focus(),
        Enter: () => picked >= 0 && closeUp(), Escape: () => pick(-1),
      };
      const act = acts[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    const middle = () => picked >= 0 ? (table.bars.start[picked] + table.bars.end[picked]) / 2 : undefined;
    function closeUp() {
      const { start, end } = table.bars, took = Math.max(end[picked] - start[picked], 1e-12);
      show(start[picked] - took, end[picked] + took);
    }

    canvas.addEventListener("wheel", (event) => {
      const box = canvas.getBoundingClientRect(), sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 300), at(event.clientX - box.left));
      else if (sideways || event.shiftKey) {
        const by = ((sideways ? event.deltaX : event.deltaY) / canvas.clientWidth) * (view[1] - view[0]);
        show(view[0] + by, view[1] + by);
      } else return;
      event.preventDefault();
    }, { passive: false });

    const down = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      down.set(event.pointerId, event.clientX);
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!down.has(event.pointerId)) {
        const i = under(event);
        return foretrace.tip(i < 0 ? null : facts(i), event.clientX, event.clientY);
      }
      const before = [...down.values()], was = down.get(event.pointerId);
      down.set(event.pointerId, event.clientX);
      moved += Math.abs(event.clientX - was);
      const now = [...down.values()], box = canvas.getBoundingClientRect();
      if (now.length === 2) {
        const [a, b] = before.map((x) => at(x - box.left)), apart = now[1] - now[0];
        if (Math.abs(apart) > 8) {
          const each = (b - a) / apart, from = a - (now[0] - box.left) * each;
          if (each > 0) show(from, from + canvas.clientWidth * each);
        }
      } else if (moved > 3) {
        const by = ((was - event.clientX) / canvas.clientWidth) * (view[1] - view[0]);
        show(view[0] + by, view[1] + by);
        foretrace.tip(null);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      down.delete(event.pointerId);
      if (moved <= 3) pick(under(event), false);
    });
    canvas.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => tip(null));
    canvas.addEventListener("dblclick", (event) => {
      zoom(0.25, at(event.clientX - canvas.getBoundingClientRect().left));
    });
    let begun = null;
    ruler.addEventListener("pointerdown", (event) => {
      begun = event.offsetX;
      ruler.setPointerCapture(event.pointerId);
    });
    ruler.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      paintRuler(begun, event.offsetX);
    });
    ruler.addEventListener("pointerup", (event) => {
      const [from, to] = [begun, event.offsetX].sort((a, b) => a - b);
      begun = null;
      if (to - from > 4) show(at(from), at(to));
      else draw();
    });
    function paintRuler(from, to) {
      paint();
      const pen = ruler.getContext("2d");
      pen.globalAlpha = 0.3;
      pen.fillStyle = colour("--link");
      pen.fillRect(Math.min(from, to), 0, Math.abs(to - from), RULER);
      pen.globalAlpha = 1;
    }
    body.addEventListener("scroll", () => (source.resident ? draw() : ask()));
    new ResizeObserver(() => ask()).observe(canvas);
    foretrace.onColours(draw);
    element.dataset.view = view.join(" ");
    lay();
    return {
      show,
      reach,
      select: (lane, time) => table && pick(Math.min(table.after(lane, time), table.from[lane + 1] - 1)),
      find: (text) => ((search.value = text), look()),
      state: () => ({ drawn: table !== null, view: [...view], rows: laid.map((row) => row.node.name), picked: picked < 0 ? null : facts(picked), found: found.textContent }),
    };
  };
})();
