import { z } from 'zod'

const EMBEDDER = /^(?:embedded|none|transformers:\s*\S.*|openai:https?:\/\/\S+)$/

const embedderOptions = z.lazy(() =>
  z.strictObject({
    model: z.string().min(1).optional().describe('openai: name of the model.'),
    apiKey: z
      .string()
      .min(1)
      .optional()
      .describe('openai: API key. Use "${OPENAI_API_KEY}" to read it from a variable.'),
    dims: z
      .int()
      .min(1)
      .max(4_096)
      .optional()
      .describe(
        'Number of dimensions of a vector. The model must return this number; openai: also sent in the request.',
      ),
    dtype: z
      .enum(['fp32', 'fp16', 'q8', 'int8', 'uint8', 'q4', 'q4f16', 'bnb4'])
      .default('q8')
      .describe('transformers: precision of the weights. The onnx folder of a model has one file for each.'),
    pooling: z
      .enum(['mean', 'cls', 'last_token'])
      .default('mean')
      .describe('transformers: how token vectors are combined, as in the model card.'),
    download: z
      .boolean()
      .default(true)
      .describe('transformers: allow downloads. With false, only models on disk are used.'),
    cacheDir: z
      .string()
      .min(1)
      .optional()
      .describe('transformers: folder for downloaded models (default: "models" in dirs.cache).'),
    queryPrefix: z.string().max(500).default('').describe('Prefix for queries, if the model needs one ("query: ").'),
    documentPrefix: z.string().max(500).default('').describe('Prefix for tools, if the model needs one ("passage: ").'),
    batchSize: z
      .int()
      .min(1)
      .max(2_048)
      .optional()
      .describe('Number of texts in one request (default 64 for openai, otherwise 16).'),
    loadTimeoutMs: z
      .int()
      .min(100)
      .max(3_600_000)
      .default(60_000)
      .describe('Maximum time without progress while a model is downloaded and loaded.'),
    requestTimeoutMs: z.int().min(100).max(600_000).default(30_000).describe('Maximum time for one batch of vectors.'),
    queryTimeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(300)
      .describe('Maximum time a search waits for the vector of its query. After it, search uses keywords only.'),
  }),
)

export const searchOptions = z.lazy(() =>
  z.strictObject({
    embedder: z
      .string()
      .regex(EMBEDDER, 'must be "embedded", "none", "transformers:<model or folder>" or "openai:<http address>"')
      .default('embedded')
      .describe(
        'Embedding model: "embedded" (included), "transformers:<model or folder>", "openai:<address>" (sends the texts to that server) or "none".',
      ),
    embedderOptions: embedderOptions
      .prefault({})
      .describe('For transformers and openai; the built-in model has no options.'),
    fusion: z
      .enum(['learned', 'rrf', 'source'])
      .default('learned')
      .describe(
        'How keyword and embedding scores are combined: learned weights, reciprocal rank fusion (rrf), or cosine × 10 + keywords (source).',
      ),
    expand: z
      .enum(['llm', 'client'])
      .or(z.literal(false))
      .default(false)
      .describe(
        'Model that writes typical user requests for tools of unknown servers, so that search finds these tools. "llm": the model of services.llm, in the background. "client": the model of the client, by sampling, if a search finds no good match. false: none. The model gets the definitions of these tools.',
      ),
    expandPerDay: z
      .int()
      .min(1)
      .max(10_000)
      .default(100)
      .describe('Maximum number of requests to that model in a day. Each request is about up to eight tools.'),
    misses: z
      .boolean()
      .default(true)
      .describe(
        'Record queries for "pegboard suggest" in the state folder: those after which the model called no tool, or a tool other than the first result. Pegboard removes secrets, and records no arguments.',
      ),
  }),
)

export type SearchSettings = z.infer<typeof searchOptions>
export type EmbedderSettings = SearchSettings['embedderOptions']
