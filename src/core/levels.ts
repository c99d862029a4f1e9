/** Of log messages, the least severe first. */
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

/** The level that lets through what any of these wants. */
export function mostVerbose(levels: Iterable<string>): string | undefined {
  let found: string | undefined
  for (const level of levels) if (found === undefined || LEVELS.indexOf(level) < LEVELS.indexOf(found)) found = level
  return found
}

/** Whether a log message is for who asked for this level. One of a level nobody knows is. */
export function isWanted(params: unknown, level: unknown): boolean {
  const said = LEVELS.indexOf(String((params as { readonly level?: unknown } | null | undefined)?.level))
  return said < 0 || said >= LEVELS.indexOf(String(level))
}
