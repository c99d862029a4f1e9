import type { Caller, Origin } from 'pegboard'

/** The same for all spellings of one name, and whatever is in it that nobody sees. */
export const sameName = (name: string): string =>
  name
    .normalize('NFKC')
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '')
    .trim()
    .toLowerCase()
    .normalize('NFKC')

/** What whoever asks is called: by the chat a request comes from, else by its token. */
export const nameOfCaller = ({ caller, origin }: { readonly caller: Caller; readonly origin: Origin }): string =>
  origin.userName || caller.principal
