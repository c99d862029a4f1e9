import { type ToolDef, z } from 'pegboard'
import { has, memoryOf, type Settings } from './config.ts'

const available = has('graph')
const name = (what: string) => z.string().trim().min(1).max(200).describe(what)

const Thing = z.object({
  name: name('What it is called. One of that name gets what is added.'),
  type: z.string().max(200).optional().describe('What it is: person, project, place …'),
  observations: z
    .array(z.string().trim().min(1).max(2_000))
    .max(50)
    .default([])
    .describe('What is known of it, a sentence each.'),
})

export const kg_add_entity: ToolDef<Settings, typeof Thing> = {
  title: 'Add to the graph',
  description:
    'Keeps a person, project or thing in the knowledge graph with what is known of it, or adds to one that is there. For single facts about the user use remember.',
  aliases: ['add entity', 'create node', 'ajouter une entité', 'añadir entidad'],
  tags: ['memory', 'graph', 'knowledge'],
  input: Thing,
  effect: 'write',
  idempotent: true,
  intent: 'memory',
  sideEffects: ['adds to the knowledge graph'],
  examples: [{ input: { name: 'Pegboard', type: 'project', observations: ['Is written in TypeScript.'] } }],
  available,
  run: ({ name, type, observations }, ctx) =>
    memoryOf(ctx).graph.addEntity({ name, observations, ...(type === undefined ? {} : { type }) }),
}

const Tie = z.object({
  from: name('Whose relation it is.'),
  relation: name('In the active voice: works_on, lives_in, depends_on.'),
  to: name('To whom or what.'),
})

export const kg_add_relation: ToolDef<Settings, typeof Tie> = {
  title: 'Relate in the graph',
  description:
    'Ties two things of the knowledge graph together; those that are not there yet are made. Not for what is known of one thing alone (kg_add_entity).',
  aliases: ['add relation', 'link entities', 'relier', 'relacionar'],
  tags: ['memory', 'graph', 'knowledge'],
  input: Tie,
  effect: 'write',
  idempotent: true,
  intent: 'memory',
  sideEffects: ['adds to the knowledge graph'],
  examples: [{ input: { from: 'Ada', relation: 'works_on', to: 'Pegboard' } }],
  available,
  run: async (tie, ctx) => ({ ...tie, added: await memoryOf(ctx).graph.addRelation(tie) }),
}

const Query = z.object({
  query: z.string().max(500).default('').describe('Words of what is looked for; without them the newest.'),
  entity: z.string().max(200).optional().describe('Instead: what this one is tied to.'),
  depth: z.int().min(1).max(5).default(1).describe('With entity: how many steps away.'),
  limit: z.int().min(1).max(50).default(10).describe('Without entity: most things to give.'),
})

export const kg_query: ToolDef<Settings, typeof Query> = {
  title: 'Ask the graph',
  description:
    'Finds things of the knowledge graph by words, or what one of them is tied to. Use it before answering about people or projects the user spoke of in earlier sessions. Not for documents.',
  aliases: ['search the graph', 'knowledge graph', 'chercher dans le graphe', 'consultar grafo'],
  tags: ['memory', 'graph', 'knowledge'],
  input: Query,
  effect: 'read',
  intent: 'memory',
  sideEffects: ['none'],
  examples: [{ input: { query: 'typescript' } }, { input: { entity: 'Ada', depth: 2 } }],
  available,
  run({ query, entity, depth, limit }, ctx) {
    const { graph } = memoryOf(ctx)
    return entity?.trim() ? graph.neighbors(entity, depth) : graph.query(query, limit)
  },
}
