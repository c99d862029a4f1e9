import { z } from 'zod'

const llmOptions = z.strictObject({
  baseUrl: z.url().describe('Base of an OpenAI-compatible API, such as "https://api.openai.com/v1".'),
  model: z.string().min(1).optional().describe('Its model, for tools that name none of their own.'),
  apiKey: z.string().min(1).optional().describe('Use "${OPENAI_API_KEY}".'),
  timeoutMs: z.int().min(1_000).max(600_000).default(60_000).describe('How long one answer may take.'),
})

const filesOptions = z.strictObject({
  inlineBytes: z
    .int()
    .min(0)
    .default(1024 * 1024)
    .describe('Longest file that is part of a result; a longer one is a link to read it by.'),
  keepMs: z
    .int()
    .min(1_000)
    .default(60 * 60_000)
    .describe('How long what was sent can be read again.'),
  maxBytes: z
    .int()
    .min(0)
    .default(64 * 1024 * 1024)
    .describe('How much of it is kept together; the oldest goes first.'),
})

const fetchOptions = z.strictObject({
  allowPrivate: z
    .boolean()
    .default(false)
    .describe('Private networks and this machine may be reached, too. Where clouds keep credentials is never reached.'),
  userAgent: z
    .string()
    .regex(/^[\x20-\x7e]{1,200}$/)
    .default('pegboard')
    .describe('What requests of modules say they come from.'),
})

export const servicesOptions = z.strictObject({
  kv: z.boolean().default(true).describe('A key-value store for modules, in the state folder.'),
  messages: z.boolean().default(true).describe('Recent messages of channels, for tools that serve chat platforms.'),
  conversations: z.boolean().default(true).describe('The last hundred entries of each channel.'),
  memory: z
    .boolean()
    .default(true)
    .describe('Facts, a knowledge graph and threadweave, for modules that keep what is known.'),
  maxBytes: z
    .int()
    .min(1_024)
    .default(4 * 1024 * 1024)
    .describe('How much one module may keep in its store.'),
  callLog: z
    .int()
    .min(0)
    .max(1_000)
    .default(50)
    .describe('How many calls of a session are remembered for retrieve_tool_call_log; 0: none.'),
  files: filesOptions.prefault({}).describe('Files that tools send.'),
  fetch: fetchOptions.prefault({}).describe('What modules may reach by `ctx.fetch`.'),
  llm: llmOptions.optional().describe('The language model of tools that need one, for clients that lend none.'),
})

export type ServicesSettings = z.infer<typeof servicesOptions>
export type LlmSettings = z.infer<typeof llmOptions>
