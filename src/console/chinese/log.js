// The words of the page, in Chinese.

export const LOG = {
};
