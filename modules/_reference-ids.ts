const INT64 = { least: -(2n ** 63n), most: 2n ** 63n - 1n }

/** A chat of Telegram by its number, a signed integer of 64 bits but 0; as text, since JavaScript's numbers are too short. */
export function telegramNumber(text: string): string | undefined {
  if (!/^[+-]?\d{1,19}$/.test(text)) return undefined
  const number = BigInt(text.replace(/^\+/, ''))
  return number !== 0n && number >= INT64.least && number <= INT64.most ? String(number) : undefined
}

/** `tg:<number>` to the number. */
export const telegramChat = (id: string): string | undefined =>
  id.startsWith('tg:') ? telegramNumber(id.slice(3)) : undefined

const OTHERS = /^(?:tg:@[A-Za-z0-9_]{1,64}|(?:maep|slack|discord):[A-Za-z0-9][\w.:@-]{0,199})$/

/** Whether this names somebody: `tg:<number>`, `tg:@<user>`, `maep:<peer>`, `slack:<channel>`, `discord:<channel>`. */
export const isReferenceId = (id: string): boolean => telegramChat(id) !== undefined || OTHERS.test(id)
