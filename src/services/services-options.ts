import { z } from 'zod'

const llmOptions = z.lazy(() =>
  z.strictObject({
    baseUrl: z.url().describe('Base URL of an OpenAI-compatible API, such as "https://api.openai.com/v1".'),
    model: z.string().min(1).optional().describe('Model for tools that name none.'),
    apiKey: z.string().min(1).optional().describe('API key. Use "${OPENAI_API_KEY}" to read it from a variable.'),
    timeoutMs: z.int().min(1_000).max(600_000).default(60_000).describe('Maximum time for one response.'),
  }),
)

const filesOptions = z.lazy(() =>
  z.strictObject({
    inlineBytes: z
      .int()
      .min(0)
      .default(1024 * 1024)
      .describe('Maximum size of a file inside a result. A larger file becomes a link.'),
    keepMs: z
      .int()
      .min(1_000)
      .default(60 * 60_000)
      .describe('How long files can be read through their links.'),
    maxBytes: z
      .int()
      .min(0)
      .default(64 * 1024 * 1024)
      .describe('Maximum total size of these files. The oldest are deleted first.'),
  }),
)

const fetchOptions = z.lazy(() =>
  z.strictObject({
    allowPrivate: z
      .boolean()
      .default(false)
      .describe('Allow private networks and this machine. Cloud metadata and link-local addresses are always denied.'),
    userAgent: z
      .string()
      .regex(/^[\x20-\x7e]{1,200}$/)
      .default('pegboard')
      .describe("User-Agent header of modules' requests."),
  }),
)

export const servicesOptions = z.lazy(() =>
  z.strictObject({
    kv: z.boolean().default(true).describe('Offer modules a key-value store in the state folder.'),
    messages: z.boolean().default(true).describe('Keep recent messages of channels, for chat tools.'),
    conversations: z.boolean().default(true).describe('Keep the last hundred entries of each channel.'),
    memory: z.boolean().default(true).describe('Keep facts and a knowledge graph, for memory tools.'),
    maxBytes: z
      .int()
      .min(1_024)
      .default(4 * 1024 * 1024)
      .describe("Maximum size of one module's store."),
    callLog: z
      .int()
      .min(0)
      .max(1_000)
      .default(50)
      .describe('Number of calls per session to keep for retrieve_tool_call_log (0: none).'),
    files: filesOptions.prefault({}).describe('Files that tools send.'),
    fetch: fetchOptions.prefault({}).describe('Network access of modules through `ctx.fetch`.'),
    llm: llmOptions
      .optional()
      .describe('Language model for tools that need one, if the client does not offer sampling.'),
  }),
)

export type LlmSettings = z.infer<typeof llmOptions>
