import { type CallContext, type Fetch, type ToolDef, ToolError, z } from 'pegboard'
import { invalid, unavailable } from '../_errors.ts'
import { prepareCache } from '../_folders.ts'
import { speak } from '../_speech.ts'
import { bearer, sendToBackend } from './backends/backend.ts'
import { runBackendCommand } from './backends/command.ts'
import { cachePaths, type MARKUPS, SETTING, type Settings, type SpeechSettings } from './config.ts'

type Context = CallContext<Settings>

const MAX_TITLE = 40

const Speech = z.object({
  title: z.string().max(200).describe('Title of the message.'),
  script: z.string().max(5000).describe('Text to speak.'),
  voice_instructions: z.string().max(1000).optional().describe('How the voice sounds: age, mood, accent, pace.'),
})
const SpeechWithoutDesign = Speech.omit({ voice_instructions: true })

const MARKUP_DESCRIPTIONS: Readonly<Record<(typeof MARKUPS)[number], string>> = {
  brackets: 'Put the tone into brackets in the script, such as [laughs] or [whispers].',
  plain: 'Write the script as plain words: marks would be read aloud.',
  emoji: 'End a sentence of the script with an emoji to set its tone.',
  voice_design: 'Write the script as plain words; the voice follows its meaning.',
}

const fileNameOf = (title: string): string =>
  [...title.replace(/[^\p{L}\p{N} _-]+/gu, '').trim()].slice(0, MAX_TITLE).join('').trim().replaceAll(' ', '_') ||
  'voice'

const hasSpeechBackend = ({ config: { speech } }: { readonly config: Settings }): true | string => {
  if (!speech) return `set ${SETTING}.speech`
  return speech.type === 'local' || speech.persona_voice !== undefined || `set ${SETTING}.speech.persona_voice`
}

/** Detected from the first bytes; a backend may return any format. */
const detectSoundType = (bytes: Uint8Array): { readonly mimetype: string; readonly extension: string } => {
  const head = Buffer.from(bytes.subarray(0, 4)).toString('latin1')
  if (head === 'OggS') return { mimetype: 'audio/ogg', extension: 'ogg' }
  if (head === 'RIFF') return { mimetype: 'audio/wav', extension: 'wav' }
  if (head.startsWith('ID3') || ((bytes[0] ?? 0) === 0xff && ((bytes[1] ?? 0) & 0xe0) === 0xe0))
    return { mimetype: 'audio/mpeg', extension: 'mp3' }
  throw new ToolError('The backend returned an unknown sound format (not Ogg, WAV or MP3).', {
    hint: 'Ask the operator.',
  })
}

async function synthesize(
  { script, voice_instructions }: { readonly script: string; readonly voice_instructions?: string | undefined },
  speech: SpeechSettings,
  ctx: Context,
  fetch: Fetch,
): Promise<Uint8Array> {
  const { processes } = ctx.services
  const { signal, config } = ctx
  const voice = speech.persona_voice ?? ''
  if (speech.type === 'openai') {
    const errorContext = { setting: `${SETTING}.speech`, secret: speech.api_key }
    const body = JSON.stringify({
      model: speech.model,
      voice,
      input: script,
      response_format: 'opus',
      ...(voice_instructions === undefined ? {} : { instructions: voice_instructions }),
    })
    const headers = { ...bearer(speech.api_key), 'content-type': 'application/json' }
    const url = `${speech.base_url.replace(/\/+$/, '')}/audio/speech`
    const response = await sendToBackend(fetch, url, { method: 'POST', headers, body, signal }, errorContext)
    return new Uint8Array(await response.arrayBuffer())
  }
  if (speech.type === 'command')
    return await runBackendCommand(
      speech,
      {
        values: { script, voice, voice_instructions: voice_instructions ?? '' },
        files: { script_file: { name: 'script.txt', data: script } },
        output: 'speech',
        timeoutMs: speech.timeout * 1000,
      },
      { processes, cacheDir: config.file_cache_dir, ctx },
    )
  if (!processes) throw new ToolError('Programs cannot run here.', { code: 'E_BACKEND_UNAVAILABLE' })
  return (await speak(script, { processes, cacheDir: config.file_cache_dir, signal })).bytes
}

const Output = z.object({ title: z.string(), path: z.string(), mimetype: z.string(), bytes: z.int() })

export const createGenerateVoiceMessage = (
  fetchFor: (baseUrl: string, timeoutS: number) => Fetch,
): ToolDef<Settings, typeof Speech> => ({
  title: 'Speak a voice message',
  description:
    'Speak a script and send it to the user as a voice message. Use it when sound is wanted, not to read answers aloud unasked.',
  aliases: ['voice message', 'text to speech', 'say aloud', 'message vocal', 'Sprachnachricht', 'mensaje de voz'],
  tags: ['voice', 'speech', 'audio'],
  input: Speech,
  output: Output,
  effect: 'write',
  openWorld: true,
  intent: 'voice',
  needs: { flags: ['voice'] },
  sideEffects: ['asks the speech backend', 'saves the sound', 'sends it to the user'],
  examples: [{ input: { title: 'Good morning', script: 'Good morning! It will be sunny today.' } }],
  available: hasSpeechBackend,
  assemble({ config }, draft) {
    const { voice_design = false, script_markup = 'plain' } = config.speech ?? {}
    return {
      description: `${draft.description} ${MARKUP_DESCRIPTIONS[script_markup]}`,
      input: voice_design ? Speech : SpeechWithoutDesign,
    }
  },
  async run({ title, script, voice_instructions }, ctx) {
    const { speech } = ctx.config
    const availability = hasSpeechBackend(ctx)
    if (!speech || availability !== true)
      throw unavailable(
        speech ? 'No voice is configured.' : 'No speech backend is available.',
        availability === true ? '' : `The operator can: ${availability}.`,
      )
    const text = script.trim()
    if (text === '') throw invalid('The script is empty.', 'Pass the text to speak.')
    const folder = `media/voice/${ctx.callId}`
    const fileName = fileNameOf(title)
    await prepareCache(ctx.config, SETTING, `${folder}/${fileName}.ogg`)
    ctx.progress(0, 1, 'Speaking the message.')
    const fetch = 'base_url' in speech ? fetchFor(speech.base_url, speech.timeout) : ctx.fetch
    const data = await synthesize({ script: text, voice_instructions }, speech, ctx, fetch)
    const { mimetype, extension } = detectSoundType(data)
    const filename = `${fileName}.${extension}`
    const path = `${folder}/${filename}`
    await cachePaths(ctx.config).writeFile(path, data)
    ctx.sendFile({ data, filename, mimetype })
    return { title, path: `file_cache_dir/${path}`, mimetype, bytes: data.length }
  },
})
