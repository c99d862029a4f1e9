/**
 * `1 tool`, `2,000 tools`. Without `toLocaleString`, which loads 7 MiB of locale data in each start.
 * @param many default `one` with an `s`
 */
export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${String(count).replace(/(?<!\.\d*)\B(?=(\d{3})+(?!\d))/g, ',')} ${count === 1 ? one : many}`
