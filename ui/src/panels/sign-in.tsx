import { useState } from 'preact/hooks'
import { accessProblem, signInWith } from '../state.ts'

/** Shown without a session. */
export function SignIn() {
  const [token, setToken] = useState('')
  const [busy, setBusy] = useState(false)
  async function submit(event: Event): Promise<void> {
    event.preventDefault()
    setBusy(true)
    await signInWith(token.trim())
    setBusy(false)
  }
  return (
    <main class="sign-in">
      <h1>Pegboard</h1>
      {accessProblem.value && (
        <p class="problem" role="alert">
          {accessProblem.value}
        </p>
      )}
      <p>Run this command in a terminal on this machine. It opens the page for you:</p>
      <pre>
        <code>pegboard ui</code>
      </pre>
      <details>
        <summary>Sign in with the token of the operator</summary>
        <form onSubmit={(event) => void submit(event)}>
          <label>
            Token
            <input
              type="password"
              autoComplete="off"
              value={token}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          </label>
          <button type="submit" disabled={busy || token.trim() === ''}>
            Sign in
          </button>
        </form>
        <p class="hint">
          This is server.http.token, or the token that pegboard serve printed. Tokens of other users do not open the
          page.
        </p>
      </details>
    </main>
  )
}
