import type { Caller, Origin } from 'pegboard'

/** Equal for all spellings of a name; ignores invisible characters. */
export const sameName = (name: string): string =>
  name
    .normalize('NFKC')
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '')
    .trim()
    .toLowerCase()
    .normalize('NFKC')

/** The caller's name: from the chat message, otherwise the principal. */
export const nameOfCaller = ({ caller, origin }: { readonly caller: Caller; readonly origin: Origin }): string =>
  origin.userName || caller.principal
