import { z } from 'zod'

const EMBEDDER = /^(?:embedded|none|transformers:\s*\S.*|openai:https?:\/\/\S+)$/

const embedderOptions = z.strictObject({
  model: z.string().min(1).optional().describe('openai: the name of the model, as its server knows it.'),
  apiKey: z
    .string()
    .min(1)
    .optional()
    .describe('openai: sent as a bearer token; write "${OPENAI_API_KEY}" and set the variable.'),
  dims: z
    .int()
    .min(1)
    .max(4_096)
    .optional()
    .describe('Numbers in a vector. The model must give as many; openai: it is also asked to.'),
  dtype: z
    .enum(['fp32', 'fp16', 'q8', 'int8', 'uint8', 'q4', 'q4f16', 'bnb4'])
    .default('q8')
    .describe('transformers: precision of the weights, one file each in the onnx folder of a model.'),
  pooling: z
    .enum(['mean', 'cls', 'last_token'])
    .default('mean')
    .describe('transformers: how the vectors of tokens become one; the card of the model says.'),
  download: z
    .boolean()
    .default(true)
    .describe('transformers: false takes only what is on disk already. A folder is never downloaded.'),
  cacheDir: z
    .string()
    .min(1)
    .optional()
    .describe('transformers: folder for downloaded models. Default: "models" in dirs.cache.'),
  queryPrefix: z.string().max(500).default('').describe('Put before queries, where the model wants it ("query: ").'),
  documentPrefix: z.string().max(500).default('').describe('Put before tools, where the model wants it ("passage: ").'),
  batchSize: z.int().min(1).max(2_048).optional().describe('Texts a request. Default 64 for openai, 16 otherwise.'),
  loadTimeoutMs: z
    .int()
    .min(100)
    .max(3_600_000)
    .default(60_000)
    .describe('Longest silence while a model is fetched and loaded; a slow download that goes on is not cut off.'),
  requestTimeoutMs: z.int().min(100).max(600_000).default(30_000).describe('Longest wait for one batch of vectors.'),
  queryTimeoutMs: z
    .int()
    .min(1)
    .max(60_000)
    .default(300)
    .describe('Longest a search waits for the vector of its query; after that it answers without.'),
})

export const searchOptions = z.strictObject({
  embedder: z
    .string()
    .regex(EMBEDDER, 'must be "embedded", "none", "transformers:<model or folder>" or "openai:<http address>"')
    .default('embedded')
    .describe(
      'Model that compares by meaning: "embedded" (built in), "transformers:<model or folder>", "openai:<address>" (texts go to that server), "none".',
    ),
  embedderOptions: embedderOptions
    .prefault({})
    .describe('For transformers and openai; the built-in model has no options.'),
  fusion: z
    .enum(['learned', 'rrf', 'source'])
    .default('learned')
    .describe('How words and meaning are weighed: learned from examples, reciprocal ranks, or cosine × 10 + keywords.'),
})

export type SearchSettings = z.infer<typeof searchOptions>
export type EmbedderSettings = SearchSettings['embedderOptions']
