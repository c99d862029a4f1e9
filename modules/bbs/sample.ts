import boards from './data/sbbslist.json' with { type: 'json' }

/** Boards that do not exist, in the format of those that do. */
export const sample: unknown = boards
