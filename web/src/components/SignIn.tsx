import { useState } from "preact/hooks";
import { hasToken, signIn } from "../api";
import { Note } from "./basics";

/** SignIn asks the user of a shared console for a token, which stays in the memory of the page. */
export function SignIn({ reason, onSignIn }: { reason: string; onSignIn: () => void }) {
  const [token, setToken] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    signIn(token);
    onSignIn();
  };
  return (
    <form class="card sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      {hasToken() && <Note kind="error" text={reason} />}
      <p>The console reads the cluster with your rights. It needs a bearer token that the API server accepts, such as the one of your kubeconfig, or one that this command makes:</p>
      <p><code>kubectl create token NAME -n NAMESPACE</code></p>
      <p>The token stays in the memory of this page, until you close or load it again. The console does not store it.</p>
      <label>Token <input type="password" autocomplete="off" required value={token} onInput={(event) => setToken(event.currentTarget.value)} /></label>
      <button type="submit">Sign in</button>
    </form>
  );
}
