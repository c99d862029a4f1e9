export declare const FILE: string
export declare function count(what: 'call' | 'answer' | 'given up' | 'lost' | 'doubled' | 'fault', note?: string): void
