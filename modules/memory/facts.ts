import { type RememberedFact, type ToolDef, z } from 'pegboard'
import { notFound } from '../_errors.ts'
import { requireKv } from '../_kv.ts'
import { has, memoryOf, type Settings, words } from './config.ts'

const available = has('facts')
const shownFact = ({ id, content, since }: RememberedFact) => ({
  fact_id: id,
  content,
  since: new Date(since).toISOString(),
})

const Remember = z.object({
  content: z.string().trim().min(1).max(2_000).describe('One fact, as a sentence that is clear without context.'),
})

export const remember: ToolDef<Settings, typeof Remember> = {
  title: 'Remember a fact',
  description:
    'Remember a fact about the user or their work for later sessions. Use it when asked to remember, or for what will matter again. Not for secrets, nor for what is only true now (task_create).',
  aliases: ['keep in mind', 'save a fact', 'note for later', 'retenir', 'recordar', 'merken'],
  tags: ['memory', 'facts'],
  input: Remember,
  effect: 'write',
  intent: 'memory',
  sideEffects: ['stores a fact'],
  examples: [{ input: { content: 'Ada prefers answers in French.' } }],
  available,
  async run({ content }, ctx) {
    const { facts } = memoryOf(ctx)
    const fact = shownFact(await facts.add(content))
    return { ...fact, total: (await facts.list()).length }
  },
}

const Recall = z.object({
  query: z.string().max(500).optional().describe('Words to search for; default the newest facts.'),
  limit: z.int().min(1).max(50).default(10).describe('Maximum number of facts.'),
})

export const recall: ToolDef<Settings, typeof Recall> = {
  title: 'Recall',
  description:
    'Recall facts by words, best first, with the goal and open tasks. Use it before asking the user what they may have told before. Not for what was said in this conversation, nor for files.',
  aliases: ['what do you know about me', 'look up memory', 'se souvenir', 'qué sabes de mí', 'erinnern'],
  tags: ['memory', 'facts', 'tasks'],
  input: Recall,
  effect: 'read',
  intent: 'memory',
  sideEffects: ['none'],
  examples: [{ input: { query: 'language' } }, { input: {} }],
  available,
  async run({ query = '', limit }, ctx) {
    const facts = (await memoryOf(ctx).facts.list()).toReversed()
    const queryWords = words(query)
    const matches =
      queryWords.length === 0
        ? facts
        : facts
            .map((fact) => ({ fact, score: matchScore(queryWords, fact.content) }))
            .filter(({ score }) => score > 0)
            .sort((a, b) => b.score - a.score)
            .map(({ fact }) => fact)
    const { goalOf, isOpen, toShownTask, tasksOf } = await import('./tasks.ts')
    const kv = requireKv(ctx, 'Facts')
    const tasks = (await tasksOf(kv, ctx.caller.principal)).filter(isOpen)
    return {
      facts: matches.slice(0, limit).map(shownFact),
      total: matches.length,
      goal: await goalOf(kv, ctx.caller.principal),
      tasks: tasks.slice(-limit).map(toShownTask),
    }
  },
}

/** Number of the words that a text contains; a prefix match counts half. */
function matchScore(queryWords: readonly string[], text: string): number {
  const factWords = words(text)
  return queryWords.reduce(
    (sum, word) =>
      sum +
      (factWords.includes(word)
        ? 1
        : factWords.some((factWord) => factWord.startsWith(word) || word.startsWith(factWord))
          ? 0.5
          : 0),
    0,
  )
}

const Forget = z.object({ fact_id: z.string().min(1).max(100).describe('From recall or get_facts.') })

export const forget: ToolDef<Settings, typeof Forget> = {
  title: 'Forget a fact',
  description:
    'Delete a remembered fact permanently. Use it when the user asks, or when a fact turned out wrong; then remember the right one. Not for tasks (task_update).',
  aliases: ['delete fact', 'unremember', 'oublier', 'olvidar', 'vergessen'],
  tags: ['memory', 'facts'],
  input: Forget,
  effect: 'destructive',
  intent: 'memory',
  sideEffects: ['deletes a fact'],
  examples: [{ input: { fact_id: '9f3a0c21b7de' } }],
  available,
  async run({ fact_id }, ctx) {
    if (await memoryOf(ctx).facts.forget(fact_id)) return { fact_id, forgotten: true }
    throw notFound(`Unknown fact: "${fact_id}".`, 'get_facts lists all facts.')
  },
}

export const get_facts: ToolDef<Settings> = {
  title: 'All facts',
  description: 'List every remembered fact, oldest first. For a few of them use recall. Not for tasks.',
  aliases: ['list facts', 'everything remembered', 'tous les faits', 'todos los recuerdos'],
  tags: ['memory', 'facts'],
  effect: 'read',
  intent: 'memory',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  async run(_input, ctx) {
    const facts = (await memoryOf(ctx).facts.list()).map(shownFact)
    return { facts, total: facts.length }
  },
}
