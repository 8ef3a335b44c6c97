import { beforeEach, expect, it, vi } from "vitest";
import { follow, get, signIn } from "./api";

const asked: string[] = [];

beforeEach(() => {
  asked.length = 0;
  vi.stubGlobal("document", { baseURI: "http://console/" });
  vi.stubGlobal("dispatchEvent", (event: CustomEvent<string>) => asked.push(event.detail));
});

function refused(): Response {
  return new Response(JSON.stringify({ error: "expired" }), { status: 401, headers: { "Content-Type": "application/json" } });
}

it("asks for a token whichever view is refused", async () => {
  vi.stubGlobal("fetch", async () => refused());
  await expect(get("quotas")).rejects.toThrow("expired");
  expect(asked).toEqual(["expired"]);
});

it("does not ask again because of a request with an earlier token", async () => {
  vi.stubGlobal("fetch", async () => {
    signIn("new");
    return refused();
  });
  await expect(get("quotas")).rejects.toThrow("expired");
  expect(asked).toEqual([]);
});

it.each([["one", 1], ["none", 2]])("follows readings when the page shows %s", async (shown, calls) => {
  const body = ["one", "two"].map((readAt) => `data: ${JSON.stringify({ readAt })}\n\n: still connected\n\n`).join("");
  let requests = 0, changes = 0;
  await new Promise<void>((resolve) => {
    vi.stubGlobal("fetch", async () => {
      if (requests++ === 0) return new Response(body);
      // It does not try again after this.
      resolve();
      return new Response("", { status: 404 });
    });
    follow(() => shown, () => { changes++; });
  });
  expect(changes).toBe(calls);
});
