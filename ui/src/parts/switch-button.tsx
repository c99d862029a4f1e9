import { useState } from 'preact/hooks'
import { post } from '../api.ts'
import { attempt, tell } from '../state.ts'
import { plural } from './format.ts'

/** Enables or disables servers, modules or tools in the configuration file. */
export function SwitchButton({
  names,
  to,
}: {
  readonly names: readonly string[]
  readonly to: 'enabled' | 'disabled'
}) {
  const [busy, setBusy] = useState(false)
  const word = to === 'enabled' ? 'Enable' : 'Disable'
  const what = names.length === 1 ? (names[0] ?? '') : plural(names.length, 'tool')
  async function act(): Promise<void> {
    setBusy(true)
    const answer = await attempt(() => post<{ readonly undo?: string }>('switch', { names, to }))
    setBusy(false)
    if (!answer) return
    if (answer.undo === undefined) tell('done', `${what}: the configuration says so already.`)
    else tell('done', `${word}d in the configuration: ${what}.`, `To take it back: pegboard undo ${answer.undo}`)
  }
  return (
    <button type="button" disabled={busy} onClick={() => void act()}>
      {busy ? `${word}…` : names.length === 1 ? word : `${word} ${what}`}
    </button>
  )
}
