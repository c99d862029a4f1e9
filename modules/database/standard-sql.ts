/** What SQLite and PostgreSQL write alike. */
export const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The end of an INSERT that updates these columns of existing rows, or keeps the rows. */
export function onConflict(conflict: readonly string[], update: readonly string[]): string {
  const set = update.map((name) => `${quote(name)} = excluded.${quote(name)}`)
  const action = set.length > 0 ? `UPDATE SET ${set.join(', ')}` : 'NOTHING'
  return ` ON CONFLICT (${conflict.map(quote).join(', ')}) DO ${action}`
}
