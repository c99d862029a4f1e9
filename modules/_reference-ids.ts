const INT64 = { least: -(2n ** 63n), most: 2n ** 63n - 1n }

/** A Telegram chat id: a non-zero 64-bit integer, as text because JavaScript numbers are too small. */
export function telegramNumber(text: string): string | undefined {
  if (!/^[+-]?\d{1,19}$/.test(text)) return undefined
  const number = BigInt(text.replace(/^\+/, ''))
  return number !== 0n && number >= INT64.least && number <= INT64.most ? String(number) : undefined
}

/** The number in `tg:<number>`. */
export const telegramChat = (id: string): string | undefined =>
  id.startsWith('tg:') ? telegramNumber(id.slice(3)) : undefined

const OTHERS = /^(?:tg:@[A-Za-z0-9_]{1,64}|(?:maep|slack|discord):[A-Za-z0-9][\w.:@-]{0,199})$/

/**
 * True for ids of people and channels: `tg:<number>`, `tg:@<user>`, `maep:<peer>`, `slack:<channel>`,
 * `discord:<channel>`.
 */
export const isReferenceId = (id: string): boolean => telegramChat(id) !== undefined || OTHERS.test(id)
