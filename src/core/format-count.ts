/** `1 tool`, `2,000 tools`. @param many default `one` with an `s` */
export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`
