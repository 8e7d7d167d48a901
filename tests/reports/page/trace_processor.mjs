// node trace_processor.mjs ASSETS TRACE QUERY: rows of a query, from the trace processor of Perfetto's page.
// ASSETS holds that processor as WebAssembly; its glue is for a browser's worker, which is played here.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [assets, trace, query] = process.argv.slice(2);
const at = (name) => resolve(assets, name);
const { EngineBase } = await import(pathToFileURL(at("engine.mjs")).href);

Object.assign(globalThis, {
  self: globalThis,
  WorkerGlobalScope: class {},
  location: { href: pathToFileURL(assets).href + "/" },
  machineCode: new Uint8Array(readFileSync(at("trace_processor.wasm"))),
});
console.warn = () => {}; // of calls and fields that are newer than its decoder

function glue() {
  const changes = [
    ["this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;"],
    ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: machineCode,"],
    ["const wasmBridge = new", "const wasmBridge = globalThis.bridge = new"],
  ];
  return changes.reduce((text, [old, fresh]) => {
    if (!text.includes(old)) throw new Error(`another version: no ${old}`);
    return text.replace(old, fresh);
  }, readFileSync(at("engine_bundle.node.js"), "utf8"));
}

vm.runInThisContext(glue());
const { port1, port2 } = new MessageChannel();
bridge.initialize(port1);

class Engine extends EngineBase {
  mode = "WASM";
  id = "test";
  constructor() {
    super();
    port2.onmessage = ({ data }) => data instanceof Uint8Array && this.onRpcResponseBytes(data);
  }
  rpcSendRequestBytes(bytes) {
    port2.postMessage(bytes);
  }
}

const engine = new Engine();
await new Promise((ready) => setTimeout(ready, 1500)); // it says nothing when it is
await engine.parse(new Uint8Array(readFileSync(trace)));
await engine.notifyEof();
const result = await engine.query(query);
const rows = [];
for (const row = result.iter({}); row.valid(); row.next())
  rows.push(result.columns().map((name) => row.get(name)));
console.log(JSON.stringify(rows, (_, value) => (typeof value === "bigint" ? Number(value) : value)));
process.exit(0);
