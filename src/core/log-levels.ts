/** Log levels, least severe first. */
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

export function mostVerbose(levels: Iterable<string>): string | undefined {
  let found: string | undefined
  for (const level of levels) if (found === undefined || LEVELS.indexOf(level) < LEVELS.indexOf(found)) found = level
  return found
}

/** True if a log message passes this level. Messages of unknown levels pass. */
export function isWanted(params: unknown, level: unknown): boolean {
  const messageLevel = LEVELS.indexOf(String((params as { readonly level?: unknown } | null | undefined)?.level))
  return messageLevel < 0 || messageLevel >= LEVELS.indexOf(String(level))
}
