// The timeline of `foretrace view`: fed by the server at every zoom and pan.
(() => {
  const { make, quantity } = foretrace;
  const facts = JSON.parse(document.getElementById("view").textContent);
  const drawn = document.getElementById("drawn"), op = document.getElementById("op");

  async function asked(page, query) {
    const told = await fetch(`${page}?${new URLSearchParams({ show: facts.show, ...query })}`);
    if (!told.ok) throw new Error(await told.text());
    return told;
  }

  // 0,1,2,7 as 0-2,7.
  function ranges(lanes) {
    const found = [];
    for (const lane of [...lanes].sort((a, b) => a - b)) {
      const last = found.at(-1);
      if (last && lane <= last[1] + 1) last[1] = lane;
      else found.push([lane, lane]);
    }
    return found.map(([low, high]) => (low === high ? low : `${low}-${high}`)).join();
  }

  // See DrawnBars.body in reports/view/opened_runs.py, which writes it.
  function read(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let at = 4 + length;
    const column = (type) => {
      const found = new type(buffer, at, head.n);
      at += head.n * type.BYTES_PER_ELEMENT;
      return found;
    };
    const bars = { names: head.names };
    for (const name of ["start", "end", "busy"]) bars[name] = column(Float64Array);
    for (const name of ["lane", "name", "count"]) bars[name] = column(Int32Array);
    bars.kind = column(Uint8Array);
    return [bars, head];
  }

  async function get(first, last, width, lanes) {
    const query = { first, last, width: Math.ceil(width), lanes: ranges(lanes) };
    const [bars, head] = read(await (await asked("bars", query)).arrayBuffer());
    const ops = bars.count.reduce((sum, n) => sum + n, 0);
    drawn.textContent = `${ops.toLocaleString("en")} ops here, in ${bars.lane.length.toLocaleString("en")} bars`
      + (ops > bars.lane.length ? `: those that last less than ${quantity(head.coarsest)} are drawn together.` : ".");
    return bars;
  }

  const find = async (text) => (await asked("find", { text })).json();

  const TIMES = ["ready", "start", "end"];
  let chosen = 0;

  // All that the table says of the chosen op, and who takes part in it; answers with their places.
  // Answers may overtake each other: that of the op chosen last stays.
  async function tell(lane, at) {
    const mine = ++chosen;
    const { ops: [first], members } = await (await asked("op", { lane, at })).json();
    if (mine !== chosen) return [];
    op.hidden = !first;
    if (!first) return [];
    const said = Object.entries(first).map(([name, value]) => [name, value === null ? "—"
      : TIMES.includes(name) ? `${value} s` : String(value)]);
    said.push(["took", quantity(first.end - first.start)]);
    op.querySelector("dl").replaceChildren(...said.flatMap(([name, text]) =>
      [make("dt", {}, name), make("dd", {}, text)]));
    return sayMembers(members, lane);
  }

  foretrace.viewed = foretrace.timeline(document.getElementById("bars"), { ...facts, get, find, tell });
  const sayMembers = foretrace.members(document.getElementById("members"), foretrace.viewed.reach);
})();
