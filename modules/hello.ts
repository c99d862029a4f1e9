import { defineModule, ToolError, type ToolModule, z } from 'pegboard'

const GREETINGS: Readonly<Record<string, string>> = {
  en: 'Hello',
  fr: 'Bonjour',
  de: 'Hallo',
  es: 'Hola',
  it: 'Ciao',
  nl: 'Hoi',
  pt: 'Olá',
  ja: 'こんにちは',
  zh: '你好',
}

const language = z
  .string()
  .max(40)
  .optional()
  .describe(`Language of the greeting: ${Object.keys(GREETINGS).join(', ')}. Default en.`)

function greeting(name: string, languageCode = 'en'): string {
  const word = GREETINGS[languageCode.toLowerCase().slice(0, 2)]
  if (!word)
    throw new ToolError(`No greeting in "${languageCode}".`, {
      code: 'E_VALIDATION',
      hint: `Use one of ${Object.keys(GREETINGS).join(', ')}.`,
    })
  return `${word}, ${name}!`
}

/** State is created here, so that a reloaded or second instance counts for itself. */
function hello(): ToolModule {
  const state = { greeted: 0 }
  return defineModule({
    name: 'hello',
    description: 'Greet people and check that the server runs: the smallest module, to try things out.',
    tools: {
      say_hello: {
        title: 'Say hello',
        description: 'Greet one person by name. Use it to try the connection; for several people use greet_many.',
        aliases: ['greet', 'hello', 'hi', 'bonjour', 'saluer', 'dire bonjour'],
        tags: ['demo', 'greeting'],
        input: z.object({ name: z.string().min(1).max(200).default('world').describe('Name to greet.'), language }),
        output: z.object({ message: z.string() }),
        effect: 'read',
        sideEffects: ['counts the greeting'],
        examples: [{ input: { name: 'Ada' } }, { input: { name: 'Ada', language: 'fr' }, note: 'in French' }],
        run({ name, language: languageCode }) {
          const message = greeting(name, languageCode)
          state.greeted++
          return { message }
        },
      },
      greet_many: {
        title: 'Greet many',
        description: 'Greet up to 100 people in one call, one message each. For a single person use say_hello.',
        aliases: ['greet all', 'greet everyone', 'saluer tous', 'saluer plusieurs personnes'],
        tags: ['demo', 'greeting'],
        input: z.object({
          names: z.array(z.string().min(1).max(200)).min(1).max(100).describe('Names to greet, in order.'),
          language,
        }),
        output: z.object({ messages: z.array(z.string()), count: z.int() }),
        effect: 'read',
        sideEffects: ['counts the greetings'],
        examples: [{ input: { names: ['Ada', 'Grace'] } }],
        run({ names, language: languageCode }) {
          const messages = names.map((name) => greeting(name, languageCode))
          state.greeted += messages.length
          return { messages, count: messages.length }
        },
      },
      status: {
        title: 'Status',
        description:
          'Show that the server runs, for how long, and how many people were greeted. Not for the state of other tools.',
        aliases: ['ping', 'health', 'uptime', 'état', 'statut'],
        tags: ['demo', 'health'],
        output: z.object({ ok: z.boolean(), uptime_seconds: z.number(), greeted: z.int() }),
        effect: 'read',
        idempotent: true,
        sideEffects: ['none'],
        examples: [{ input: {} }],
        run: () => ({
          ok: true,
          uptime_seconds: Math.round(process.uptime()),
          greeted: state.greeted,
        }),
      },
    },
  })
}

export default hello()
