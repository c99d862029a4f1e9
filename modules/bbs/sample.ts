import boards from './data/sbbslist.json' with { type: 'json' }

/** Invented boards in the format of real ones. */
export const sample: unknown = boards
