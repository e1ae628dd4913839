// A client of the API, typed by its description: it has to compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const api = createClient<paths>({ baseUrl: "http://127.0.0.1:8080", headers: { authorization: "Bearer token" } });

export async function sites(): Promise<components["schemas"]["ListedSite"][]> {
  const { data, error } = await api.GET("/api/sites");
  if (error) throw new Error(error.message);
  return data;
}

export async function rename(id: number, name: string): Promise<string> {
  const { data, error } = await api.PUT("/api/sites/{id}", { params: { path: { id } }, body: { name } });
  if (error) throw new Error(error.message);
  // @ts-expect-error a site has no such member
  data.nmae;
  return data.name;
}
