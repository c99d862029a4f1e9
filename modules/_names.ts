import type { Caller, Origin } from 'pegboard'

/** The same for all spellings of one name. */
export const sameName = (name: string): string => name.normalize('NFKC').trim().toLowerCase()

/** What whoever asks is called: by the chat a request comes from, else by its token. */
export const nameOfCaller = ({ caller, origin }: { readonly caller: Caller; readonly origin: Origin }): string =>
  origin.userName || caller.principal
