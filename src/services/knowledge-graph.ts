import { PegboardError } from '../core/errors.ts'
import type { Entity, Graph, GraphPart, Kv, Relation } from '../core/service-types.ts'
import { wordsOf } from './message-store.ts'

const KEY = 'graph'
const MAX_ENTITIES = 2_000
const MAX_RELATIONS = 10_000
const MAX_OBSERVATIONS = 100
const MAX_NAME = 200
const MAX_OBSERVATION = 2_000
const MAX_DEPTH = 5

const empty: GraphPart = { entities: [], relations: [] }
const foldName = (name: string): string => name.normalize('NFKC').trim().toLowerCase()

/** A graph of entities and relations, stored as one value. */
export function createGraph(kv: Kv): Graph {
  const read = async (): Promise<GraphPart> => ((await kv.get(KEY)) as GraphPart | null) ?? empty
  const change = <Result>(work: (graph: GraphPart) => { readonly graph?: GraphPart; readonly result: Result }) =>
    kv.update(KEY, (value) => {
      const { graph, result } = work((value as GraphPart | null) ?? empty)
      return { value: graph, result }
    })

  return {
    addEntity: (given) =>
      change((graph) => {
        const { entity, graph: now } = withEntity(graph, given)
        return { graph: now, result: entity }
      }),
    addRelation: (given) =>
      change((before) => {
        const relation = textOf(given.relation, 'a relation', MAX_NAME)
        const { entity: from, graph: one } = withEntity(before, { name: given.from })
        const { entity: to, graph } = withEntity(one, { name: given.to })
        const added: Relation = { from: from.name, relation, to: to.name }
        if (graph.relations.some((old) => isSame(old, added))) return { result: false }
        if (graph.relations.length >= MAX_RELATIONS) throw createFullError(`${MAX_RELATIONS} relations`)
        return { graph: { ...graph, relations: [...graph.relations, added] }, result: true }
      }),
    async query(query = '', limit = 10) {
      const graph = await read()
      const words = wordsOf(query)
      const found =
        words.length === 0
          ? graph.entities.toReversed()
          : graph.entities
              .map((entity) => ({ entity, score: scoreOf(entity, words) }))
              .filter(({ score }) => score > 0)
              .sort((a, b) => b.score - a.score)
              .map(({ entity }) => entity)
      return withRelations(graph, found.slice(0, Math.max(1, limit)))
    },
    async neighbors(name, depth = 1) {
      const graph = await read()
      const reached = new Set([foldName(name)])
      for (let step = 0; step < Math.min(depth, MAX_DEPTH); step++)
        for (const key of graph.relations.flatMap(({ from, to }) => {
          const [one, other] = [foldName(from), foldName(to)]
          return reached.has(one) || reached.has(other) ? [one, other] : []
        }))
          reached.add(key)
      const entities = graph.entities.filter((entity) => reached.has(foldName(entity.name)))
      const relations = graph.relations.filter(
        ({ from, to }) => reached.has(foldName(from)) && reached.has(foldName(to)),
      )
      return { entities, relations }
    },
    removeEntity: (name) =>
      change((graph) => {
        const foldedName = foldName(name)
        const entities = graph.entities.filter((entity) => foldName(entity.name) !== foldedName)
        if (entities.length === graph.entities.length) return { result: false }
        const relations = graph.relations.filter(
          ({ from, to }) => foldName(from) !== foldedName && foldName(to) !== foldedName,
        )
        return { graph: { entities, relations }, result: true }
      }),
  }
}

function withEntity(
  graph: GraphPart,
  { name, type, observations = [] }: Parameters<Graph['addEntity']>[0],
): { readonly entity: Entity; readonly graph: GraphPart } {
  const called = textOf(name, 'an entity', MAX_NAME)
  const at = graph.entities.findIndex((one) => foldName(one.name) === foldName(called))
  const before = graph.entities[at]
  const entity: Entity = {
    name: before?.name ?? called,
    type: type?.trim().slice(0, MAX_NAME) || before?.type || '',
    observations: [
      ...new Set([
        ...(before?.observations ?? []),
        ...observations.map((one) => textOf(one, 'an observation', MAX_OBSERVATION)),
      ]),
    ].slice(-MAX_OBSERVATIONS),
  }
  if (before) return { entity, graph: { ...graph, entities: graph.entities.with(at, entity) } }
  if (graph.entities.length >= MAX_ENTITIES) throw createFullError(`${MAX_ENTITIES} entities`)
  return { entity, graph: { ...graph, entities: [...graph.entities, entity] } }
}

/** A word in the name weighs more than one in the observations. */
function scoreOf({ name, type, observations }: Entity, words: readonly string[]): number {
  const [named, typed, observed] = [wordsOf(name), wordsOf(type), wordsOf(observations.join(' '))]
  return words.reduce(
    (sum, word) => sum + (named.includes(word) ? 3 : typed.includes(word) ? 2 : observed.includes(word) ? 1 : 0),
    0,
  )
}

function withRelations(graph: GraphPart, entities: readonly Entity[]): GraphPart {
  const names = new Set(entities.map(({ name }) => foldName(name)))
  const relations = graph.relations.filter(({ from, to }) => names.has(foldName(from)) || names.has(foldName(to)))
  return { entities, relations }
}

const isSame = (one: Relation, other: Relation): boolean =>
  foldName(one.from) === foldName(other.from) &&
  foldName(one.to) === foldName(other.to) &&
  foldName(one.relation) === foldName(other.relation)

function textOf(text: unknown, what: string, most: number): string {
  const trimmed = typeof text === 'string' ? text.trim() : ''
  if (trimmed === '') throw new PegboardError('E_VALIDATION', `The graph needs a string for ${what}.`)
  return trimmed.slice(0, most)
}

const createFullError = (what: string): PegboardError =>
  new PegboardError('E_TOO_LARGE', `The graph has ${what}, which is the limit.`, {
    hint: 'Remove facts that are no longer true.',
  })
