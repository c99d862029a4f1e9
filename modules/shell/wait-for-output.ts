import { includesText } from '../_occurrences.ts'
import type { Command } from './command.ts'

/** A program that has written something and is then silent for this long has answered. */
const QUIET_MS = 250
const CHECK_INTERVAL_MS = 50

/** How much of each output was written at a moment. */
export interface OutputPosition {
  readonly stdout: number
  readonly stderr: number
}

export const outputPosition = ({ stdout, stderr }: Command): OutputPosition => ({
  stdout: stdout.bytes,
  stderr: stderr.bytes,
})

/**
 * Waits until a command has written the expected text, or without one until it has written something and is silent;
 * until it ends; or until the time is over. Rejects when `signal` fires.
 */
export async function waitForOutput(
  command: Command,
  from: OutputPosition,
  {
    waitMs,
    until,
    signal,
  }: { readonly waitMs: number; readonly until?: string | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const { stdout, stderr } = command
  const startedAt = Date.now()
  let hasEnded = false
  void command.ended.then(() => {
    hasEnded = true
  })
  let before = from
  let changedAt = startedAt
  for (;;) {
    signal.throwIfAborted()
    const position = outputPosition(command)
    const isNew = position.stdout !== before.stdout || position.stderr !== before.stderr
    if (isNew) {
      before = position
      changedAt = Date.now()
    }
    const hasNew = position.stdout > from.stdout || position.stderr > from.stderr
    if (until === undefined) {
      if (hasNew && Date.now() - changedAt >= QUIET_MS) return
    } else if (
      isNew &&
      [stdout.since(from.stdout), stderr.since(from.stderr)].some((text) => includesText(text, until))
    )
      return
    if (hasEnded || Date.now() - startedAt >= waitMs) return
    await new Promise((resolve) => setTimeout(resolve, CHECK_INTERVAL_MS))
  }
}
