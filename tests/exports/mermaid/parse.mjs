// Parses diagrams with Mermaid itself: a JSON array of sources in, what it has understood of each out.
import { JSDOM } from "jsdom";

const { window } = new JSDOM("");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");

mermaid.initialize({ securityLevel: "strict" });
let text = "";
for await (const chunk of process.stdin) text += chunk;
const understood = [];
for (const source of JSON.parse(text)) {
  try {
    const { db, type } = await mermaid.mermaidAPI.getDiagramFromText(source);
    const actors = [...db.getActors().values()].map(({ name, description }) => [name, description]);
    const messages = db.getMessages().map(({ from, to, message, type: kind }) => [from ?? null, to ?? null, message, kind]);
    understood.push({ type, actors, messages });
  } catch (error) {
    understood.push({ error: String(error) });
  }
}
console.log(JSON.stringify(understood));
