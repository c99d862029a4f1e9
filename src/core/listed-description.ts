interface ListedTool {
  readonly description: string
  readonly fullDescription?: string | undefined
}

/** The description as listed, with a note if it was cut. */
export const listedDescription = ({ description, fullDescription }: ListedTool): string =>
  fullDescription === undefined
    ? description
    : `${description}…\n${cutNotice(description.length, fullDescription.length)}`

/** Servers cannot fake this note, because Pegboard changes their lines that begin like it. */
const cutNotice = (listedLength: number, fullLength: number): string =>
  `[NOTICE] Pegboard cut this description: ${listedLength} of ${fullLength} characters are listed.`
