/** The first revision without sessions. */
export const MODERN_REVISION = '2026-07-28'

/** Protocol revisions with sessions, newest first. */
export const SESSION_REVISIONS: readonly string[] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
  '2024-10-07',
]

/** The revision of a session whose client asked for `requested`. */
export const revisionFor = (requested: unknown): string =>
  SESSION_REVISIONS.find((revision) => revision === requested) ?? (SESSION_REVISIONS[0] as string)

/** True for the only revision with JSON-RPC batches. */
export const hasBatches = (revision: string | undefined): boolean => revision === '2025-03-26'
