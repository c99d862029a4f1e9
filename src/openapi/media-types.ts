export const FORM = 'application/x-www-form-urlencoded'
export const MULTIPART = 'multipart/form-data'

export const isJson = (type: string): boolean => /^application\/(?:json|[^;]*\+json)\s*(?:;|$)/i.test(type)

/** Types whose content is text in UTF-8 or in their `charset`. */
export const isText = (type: string): boolean =>
  isJson(type) ||
  /^(?:text\/|application\/(?:xml|yaml|x-yaml|javascript|graphql|x-ndjson|[^;]*\+(?:xml|yaml)))/i.test(type)
