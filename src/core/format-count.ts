/** `2,000`. Without `toLocaleString`, whose first call loads 7 MiB of locale data. */
export const formatNumber = (value: number): string => String(value).replace(/(?<!\.\d*)\B(?=(\d{3})+(?!\d))/g, ',')

/** `1 tool`, `2,000 tools`. @param many default `one` with an `s` */
export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${formatNumber(count)} ${count === 1 ? one : many}`
