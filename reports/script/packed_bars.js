// Bars of a timeline out of the page: columns whose bytes lie in planes, deflated, in base64.
(() => {
  async function inflated(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // Numbers of `width` bytes each from planes: first all low bytes, then the next.
  function column(bytes, at, n, width) {
    const found = new Uint32Array(n);
    for (let plane = 0; plane < width; plane++)
      for (let i = 0; i < n; i++) found[i] |= bytes[at + plane * n + i] << (8 * plane);
    return found;
  }

  // {n, step, first, names, packed}: see reports/figures/packed_bars.py, which writes it.
  foretrace.packedBars = async (body) => {
    const bytes = await inflated(body.packed);
    const n = body.n;
    let at = 0;
    const next = (width) => {
      const found = column(bytes, at, n, width);
      at += width * n;
      return found;
    };
    const newLane = next(2), gap = next(4), length = next(4), kind = next(1), name = next(4);
    const count = next(4), slack = next(4), met = next(4), wait = next(4);
    const bars = {
      n,
      lane: new Int32Array(n), start: new Float64Array(n), end: new Float64Array(n),
      kind: Uint8Array.from(kind), name: new Int32Array(n), names: body.names,
      count: Int32Array.from(count), busy: new Float64Array(n),
      met: new Int32Array(n), wait: new Float64Array(n), cameLast: new Uint8Array(n),
    };
    let lane = 0, tick = 0;
    for (let i = 0; i < n; i++) {
      if (newLane[i]) [lane, tick] = [lane + newLane[i], 0];
      tick += gap[i] | 0; // from the end of the one before; below 0 where ops overlap
      bars.lane[i] = lane - 1;
      bars.start[i] = body.first + tick * body.step;
      tick += length[i];
      bars.end[i] = body.first + tick * body.step;
      bars.busy[i] = (length[i] - slack[i]) * body.step;
      bars.name[i] = name[i] - 1;
      bars.met[i] = met[i] - 1;
      bars.wait[i] = Math.floor(wait[i] / 2) * body.step;
      bars.cameLast[i] = wait[i] & 1;
    }
    const each = () => {
      const found = column(bytes, at, body.meetings, 4);
      at += 4 * body.meetings;
      return found;
    };
    bars.meetings = { of: each(), last: each(), who: each(), most: Array.from(each(), (t) => t * body.step) };
    return bars;
  };
})();
