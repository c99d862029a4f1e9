import { type ToolDef, z } from 'pegboard'
import { has, memoryOf, type Settings } from './config.ts'

const available = has('graph')
const name = (what: string) => z.string().trim().min(1).max(200).describe(what)

const Thing = z.object({
  name: name('Name. An existing entity of that name is extended.'),
  type: z.string().max(200).optional().describe('Type: person, project, place …'),
  observations: z
    .array(z.string().trim().min(1).max(2_000))
    .max(50)
    .default([])
    .describe('Known facts, one sentence each.'),
})

export const kg_add_entity: ToolDef<Settings, typeof Thing> = {
  title: 'Add to the graph',
  description:
    'Add a person, project or thing to the knowledge graph with facts about it, or extend an existing one. For single facts about the user use remember.',
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
  from: name('Source of the relation.'),
  relation: name('Relation in the active voice: works_on, lives_in, depends_on.'),
  to: name('Target of the relation.'),
})

export const kg_add_relation: ToolDef<Settings, typeof Tie> = {
  title: 'Add a relation',
  description:
    'Relate two things in the knowledge graph; missing ones are created. Not for facts about one thing (kg_add_entity).',
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
  query: z.string().max(500).default('').describe('Words to search for; default the newest.'),
  entity: z.string().max(200).optional().describe('Instead: an entity, to get its relations.'),
  depth: z.int().min(1).max(5).default(1).describe('With entity: maximum number of steps.'),
  limit: z.int().min(1).max(50).default(10).describe('Without entity: maximum number of results.'),
})

export const kg_query: ToolDef<Settings, typeof Query> = {
  title: 'Query the graph',
  description:
    'Search the knowledge graph by words, or show what an entity is related to. Use it before answering about people or projects the user spoke of in earlier sessions. Not for documents.',
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
