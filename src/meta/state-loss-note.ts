import type { MetaHost } from './meta-host.ts'

/** A note for lists that may be shorter than the caller remembers, because damaged state was put aside. */
export function stateLossNote({ lostAt }: Pick<MetaHost, 'lostAt'>): { readonly note?: string } {
  const at = lostAt()
  if (at === undefined) return {}
  const time = new Date(at).toISOString()
  return {
    note: `State from before ${time} was damaged and moved aside; the operator has the file. Plan it again.`,
  }
}
