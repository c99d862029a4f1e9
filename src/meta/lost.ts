import type { Host } from './host.ts'

/** What a list says that may be shorter than whoever asks remembers; nothing where nothing was lost. */
export function lostNote({ lostAt }: Pick<Host, 'lostAt'>): { readonly note?: string } {
  const at = lostAt()
  if (at === undefined) return {}
  const time = new Date(at).toISOString()
  return {
    note: `What was kept before ${time} was damaged and is put aside; the operator has the file. Plan it again.`,
  }
}
