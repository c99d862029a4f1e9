import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isPegboardError, type Processes, ToolError } from 'pegboard'
import { runProgram } from './_program.ts'

/** Speech synthesized by local programs; used by two modules. */
export interface Speech {
  /** Ogg with Opus. */
  readonly bytes: Uint8Array
  readonly mimetype: 'audio/ogg'
  /** The language in which the text was spoken. */
  readonly lang: string
  readonly engine: string
}

export interface SpeechOptions {
  readonly processes: Processes
  /** A temporary folder is created in it and removed. */
  readonly cacheDir: string
  /** BCP 47; default: detected from the script of the text. */
  readonly lang?: string | undefined
  readonly signal?: AbortSignal | undefined
}

const MAX_CHARS = 1_200
const LIMIT_MS = 30_000

/** `undefined` if the engine does not support the language. */
type Engine = readonly [
  command: string,
  args: (wav: string, textFile: string, lang: string, text: string) => string[] | undefined,
]

const PICO: Readonly<Record<string, string>> = { en: 'en-US', de: 'de-DE', es: 'es-ES', fr: 'fr-FR', it: 'it-IT' }
const eSpeakVoice = (lang: string, chinese: string): string => (lang === 'zh' ? chinese : lang)

/**
 * In the order they are tried. The text is passed in a file if the program supports that, otherwise as an argument
 * after `--` or its own option.
 */
const ENGINES: readonly Engine[] = [
  [
    'pico2wave',
    (wav, _file, lang, text) =>
      PICO[lang] === undefined ? undefined : [`--lang=${PICO[lang]}`, `--wave=${wav}`, '--', text],
  ],
  ['espeak-ng', (wav, file, lang) => ['-v', eSpeakVoice(lang, 'cmn'), '-w', wav, '-f', file]],
  ['espeak', (wav, file, lang) => ['-v', eSpeakVoice(lang, 'zh'), '-w', wav, '-f', file]],
  ['flite', (wav, file) => ['-f', file, '-o', wav]],
]
const CONVERTERS: ReadonlyArray<readonly [string, (wav: string, ogg: string) => string[]]> = [
  [
    'ffmpeg',
    (wav, ogg) => [
      '-nostdin',
      '-loglevel',
      'error',
      '-y',
      '-i',
      wav,
      '-ac',
      '1',
      '-c:a',
      'libopus',
      '-b:a',
      '32k',
      ogg,
    ],
  ],
  ['opusenc', (wav, ogg) => ['--quiet', '--bitrate', '32', wav, ogg]],
]

/**
 * Speaks a text with the first available engine. Text beyond 1,200 characters is cut; the whole takes at most 30 s.
 * @throws ToolError E_BACKEND_UNAVAILABLE if no engine or converter is installed, E_TIMEOUT, E_TOOL_FAILED
 */
export async function speak(input: string, { processes, cacheDir, lang, signal }: SpeechOptions): Promise<Speech> {
  const text = [...input.trim()].slice(0, MAX_CHARS).join('')
  const spoken = languageOf(lang, text)
  const limit = { signal: AbortSignal.timeout(LIMIT_MS), seconds: LIMIT_MS / 1_000, hint: 'Give a shorter text.' }
  await mkdir(cacheDir, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(cacheDir, 'speech-'))
  const [wav, ogg, file] = [join(folder, 'speech.wav'), join(folder, 'speech.ogg'), join(folder, 'text.txt')]
  /** Runs a program; false if it is not installed. */
  const run = async (command: string, args: readonly string[]): Promise<boolean> => {
    try {
      await runProgram(processes, { command, args, folder, as: command, signal, limit })
      return true
    } catch (error) {
      if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return false
      throw error
    }
  }
  try {
    await writeFile(file, `${text}\n`, { mode: 0o600 })
    const engine = await findFirst(ENGINES, async ([command, argsFor]) => {
      const args = argsFor(wav, file, spoken, text)
      return args !== undefined && (await run(command, args))
    })
    if (!engine)
      throw createMissingError(
        `no local TTS engine found (install one of: ${ENGINES.map(([name]) => name).join(', ')})`,
      )
    await requireFile(wav, engine[0])
    const converter = await findFirst(CONVERTERS, ([command, argsFor]) => run(command, argsFor(wav, ogg)))
    if (!converter) throw createMissingError('no audio converter found (install ffmpeg or opusenc)')
    await requireFile(ogg, converter[0])
    return { bytes: await readFile(ogg), mimetype: 'audio/ogg', lang: spoken, engine: engine[0] }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const createMissingError = (message: string): ToolError =>
  new ToolError(message, { code: 'E_BACKEND_UNAVAILABLE', hint: 'Ask the operator.', retryable: false })

async function findFirst<T>(items: readonly T[], test: (item: T) => Promise<boolean>): Promise<T | undefined> {
  for (const item of items) if (await test(item)) return item
  return undefined
}

/** An engine that does not know a language exits successfully without output. */
async function requireFile(path: string, program: string): Promise<void> {
  const size = await stat(path).then(
    (fileStat) => fileStat.size,
    () => 0,
  )
  if (size === 0)
    throw new ToolError(`${program} produced no sound for this text.`, {
      hint: 'Set another lang, or change the text.',
    })
}

const SCRIPTS: ReadonlyArray<readonly [string, RegExp]> = [
  ['ja', /[\p{Script=Hiragana}\p{Script=Katakana}]/u],
  ['zh', /\p{Script=Han}/u],
  ['ko', /\p{Script=Hangul}/u],
  ['ru', /\p{Script=Cyrillic}/u],
  ['ar', /\p{Script=Arabic}/u],
  ['hi', /\p{Script=Devanagari}/u],
]

/** The requested language, otherwise detected from the script. Kana mark Han characters as Japanese. */
export function languageOf(lang: string | undefined, text: string): string {
  const requestedLanguage = /^([a-z]{2,3})(?:[-_]|$)/i.exec(lang?.trim() ?? '')?.[1]?.toLowerCase()
  if (requestedLanguage !== undefined) return requestedLanguage
  const scripts = SCRIPTS.flatMap(([name, script]) => {
    const at = text.search(script)
    return at < 0 ? [] : [{ name, at: name === 'ja' ? -1 : at }]
  })
  return scripts.sort((a, b) => a.at - b.at)[0]?.name ?? 'en'
}
