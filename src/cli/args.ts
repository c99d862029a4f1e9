import { type Io, UsageError, writeJson } from './io.ts'

/** The words after the command, parsed. */
export interface Args {
  /** Option values by name, without the dashes. */
  readonly values: Readonly<Record<string, string | boolean | ReadonlyArray<string | boolean> | undefined>>
  readonly positionals: readonly string[]
}

/** The value of a string option; undefined if it was not given. */
export function readOption(args: Args, name: string): string | undefined {
  const value = args.values[name]
  return typeof value === 'string' ? value : undefined
}

/** The values of an option that may be given several times; undefined if it was not given. */
export function readList(args: Args, name: string): string[] | undefined {
  const values = args.values[name]
  return Array.isArray(values) ? values.map(String) : undefined
}

/** The value of a whole-number option between `min` and `max`, or `fallback`. @throws UsageError */
export function readInteger(args: Args, name: string, min: number, max: number, fallback: number): number {
  const raw = readOption(args, name)
  if (raw === undefined) return fallback
  const value = Number(raw)
  if (!/^\d+$/.test(raw) || value < min || value > max)
    throw new UsageError(`--${name} takes a whole number from ${min} to ${max}, not "${raw}"`)
  return value
}

/** The value of an option that takes one of `words`, or `fallback`. @throws UsageError */
export function readChoice<const Word extends string>(
  args: Args,
  name: string,
  choices: readonly Word[],
  fallback: Word,
): Word {
  const raw = readOption(args, name) ?? fallback
  const match = choices.find((choice) => choice === raw)
  if (match === undefined) throw new UsageError(`--${name} takes ${choices.join(', ')}, not "${raw}"`)
  return match
}

/** Writes the answer of a command: the value with --json, else the text. */
export function writeAnswer(args: Args, io: Io, value: unknown, text: string): void {
  if (args.values['json'] === true) writeJson(io, value)
  else io.stdout(text)
}
