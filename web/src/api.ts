import type { Endpoints } from "./types.gen";

type Named<Method extends string> = { [K in keyof Endpoints]: K extends `${Method} ${infer Name}` ? Name : never }[keyof Endpoints];

/** Answer is the response of an endpoint, such as Answer<"GET fleet">. */
export type Answer<K extends keyof Endpoints> = Endpoints[K]["response"];

/** Failure is an error that the console responds with. */
export class Failure extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

// token is the bearer token of the user of a shared console. It is only in the memory of the page.
let token = "";

/** signIn sets the token of the user. */
export function signIn(value: string): void {
  token = value.trim().replace(/^Bearer\s+/i, "");
}

/** hasToken reports whether the user has signed in. */
export function hasToken(): boolean {
  return token !== "";
}

function headers(): Record<string, string> {
  // The service proxy of an API server removes the header Authorization.
  return token === "" ? {} : { "X-Berth-Authorization": `Bearer ${token}` };
}

const address = (path: string) => new URL(`api/${path}`, document.baseURI.split("#")[0]);

/** refuse has the page ask for a token, unless the user has signed in since the request was sent. */
function refuse(status: number, message: string, used: string): void {
  if (status === 401 && used === token) dispatchEvent(new CustomEvent("unauthorized", { detail: message }));
}

async function send<T>(path: string, init: RequestInit): Promise<T> {
  const used = token;
  let response: Response;
  try {
    response = await fetch(address(path), { ...init, headers: { ...headers(), ...init.headers } });
  } catch (err) {
    if (isAbort(err)) throw err;
    throw new Error("The console does not respond. Is kubectl berth console still running?");
  }
  if (response.headers.get("Content-Type") !== "application/json") throw new Failure(await response.text(), response.status);
  const body = (await response.json()) as T & { error?: string };
  if (!response.ok) {
    const message = body.error ?? `the console responded with the status ${response.status}`;
    refuse(response.status, message, used);
    throw new Failure(message, response.status);
  }
  return body;
}

/** isAbort reports whether an error means that the page gave up a request. */
export function isAbort(err: unknown): boolean {
  return err instanceof DOMException && err.name === "AbortError";
}

/** messageOf returns the message of an error. */
export function messageOf(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}

type Parameters = Record<string, string | number | undefined>;

/** query returns parameters as text. Those that are undefined are left out. */
export function query(parameters: Parameters): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) out.set(name, String(value));
  }
  return out.toString();
}

/** get returns what an endpoint returns for parameters. */
export function get<Name extends Named<"GET">>(name: Name, parameters: Parameters = {}, signal?: AbortSignal): Promise<Answer<`GET ${Name}`>> {
  return send(`${name}?${query(parameters)}`, signal ? { signal } : {});
}

/** post returns what an endpoint computes from a value. */
export function post<Name extends Named<"POST">>(name: Name, value: Endpoints[`POST ${Name}`]["request"], signal?: AbortSignal): Promise<Answer<`POST ${Name}`>> {
  return send(name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value), ...(signal ? { signal } : {}) });
}

const firstPause = 1_000, longestPause = 30_000;

/**
 * follow calls a function after each new reading of the cluster, until the returned function is called. At first, the console says which
 * reading is the latest: shown returns the time of the one that the page shows.
 */
export function follow(shown: () => string | undefined, changed: () => void): () => void {
  const end = new AbortController();
  const read = async (): Promise<boolean> => {
    const used = token;
    const response = await fetch(address("updates"), { headers: headers(), signal: end.signal });
    refuse(response.status, "The token is no longer valid.", used);
    if (!response.ok || !response.body) return response.status >= 500;
    let first = true;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return true;
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events.filter((e) => e.startsWith("data:"))) {
        const { readAt } = JSON.parse(event.slice("data:".length)) as { readAt: string };
        if (!first || readAt !== shown()) changed();
        first = false;
      }
    }
  };
  void (async () => {
    for (let pause = firstPause; !end.signal.aborted; pause = Math.min(2 * pause, longestPause)) {
      try {
        if (!(await read())) return;
        pause = firstPause;
      } catch {
        // The console has ended, or the page has.
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  })();
  return () => end.abort();
}
